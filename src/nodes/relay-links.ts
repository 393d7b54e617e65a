/** The links between the ends of rooms: the workers of one node, or those that nodes have named to the control plane. */
import { randomUUID } from "node:crypto";
import { type LinkCondition, MAX_LINK_TRACKS, type RelayCalls, type RelayedTrackRef } from "../protocol/media/relay.ts";
import { MediaError, type RelayEvent } from "../protocol/media-node.ts";

const UP_WITHIN_MS = 3_000;

/** An end of links: a worker, or a node's named worker. */
export interface LinkEnd {
  relay<M extends keyof RelayCalls>(method: M, request: RelayCalls[M]): Promise<unknown>;
}

export type RelayLink<E> = {
  linkId: string;
  ends: readonly [E, E];
  /** The rooms that use the link. */
  rooms: Set<string>;
  /** The condition that each end has reported. Both have to hear the other. */
  states: Map<E, LinkCondition>;
  /** The end that has the publisher, by room and track. */
  tracks: Map<string, E>;
  /** Pending requests that announce tracks to the other end. */
  adding: Set<Promise<unknown>>;
  up: PromiseWithResolvers<void>;
};

type Output<E> = {
  /** Tells both ends how to reach each other. */
  open(link: { linkId: string; ends: readonly [E, E] }): Promise<unknown>;
  /** Called when the ends stop hearing each other. */
  lost?(link: RelayLink<E>): void;
};

const keyOf = ({ roomId, trackId }: Pick<RelayedTrackRef, "roomId" | "trackId">) => `${roomId} ${trackId}`;

export class RelayLinks<E extends LinkEnd> {
  readonly #links = new Map<string, RelayLink<E>>();
  readonly #output: Output<E>;

  constructor(output: Output<E>) {
    this.#output = output;
  }

  get size(): number {
    return this.#links.size;
  }

  all(): Iterable<RelayLink<E>> {
    return this.#links.values();
  }

  get(linkId: string): RelayLink<E> | undefined {
    return this.#links.get(linkId);
  }

  /** The tracks of the room at either end become available at the other. Resolves when all of them are. */
  async share(roomId: string, one: E, other: E): Promise<void> {
    const link = this.#find(one, other) ?? this.#open(one, other);
    link.rooms.add(roomId);
    await link.up.promise;
    const { linkId } = link;
    await Promise.all(link.ends.map((end) => end.relay("shareRoom", { roomId, linkId })));
    // An end offers its tracks before it answers, so all of them are in `adding` by now.
    await Promise.all(link.adding);
  }

  /** Keeps a link that both ends have had since before this process started. */
  adopt(linkId: string, ends: readonly [E, E], rooms: Iterable<string>): void {
    const link = this.#add(linkId, ends);
    for (const roomId of rooms) {
      link.rooms.add(roomId);
      for (const end of ends) quietly(end.relay("shareRoom", { roomId, linkId }));
    }
    link.up.resolve();
  }

  isShared(roomId: string, one: E, other: E): boolean {
    return this.#find(one, other)?.rooms.has(roomId) ?? false;
  }

  /** Ends this room's use of the links of `gone`. */
  unshare(roomId: string, gone: E): void {
    for (const link of this.#linksOf(gone)) {
      if (!link.rooms.delete(roomId)) continue;
      for (const end of link.ends) quietly(end.relay("unshareRoom", { roomId, linkId: link.linkId }));
      for (const key of [...link.tracks.keys()]) if (key.startsWith(`${roomId} `)) link.tracks.delete(key);
      if (link.rooms.size === 0) this.#close(link);
    }
  }

  /** Called when the end has crashed: its tracks end at all others. */
  lost(gone: E): void {
    for (const link of this.#linksOf(gone)) this.#close(link, gone);
  }

  received(from: E, event: RelayEvent): void {
    if (event.type === "relayData") {
      const { roomId } = event.data;
      for (const link of this.#linksOf(from))
        if (link.rooms.has(roomId)) quietly(other(link, from).relay("deliverRelayed", event.data));
      return;
    }
    const link = this.#links.get(event.type === "relayOffered" ? event.track.linkId : event.linkId);
    if (!link?.ends.includes(from)) return;
    const to = other(link, from);
    switch (event.type) {
      case "linkChanged":
        this.#changed(link, from, event);
        break;
      case "relayOffered": {
        const { track } = event;
        if (!link.rooms.has(track.roomId) || !this.#mayOffer(link, from, track)) break;
        link.tracks.set(keyOf(track), from);
        const adding = to.relay("addRelayed", track).catch(() => {});
        link.adding.add(adding);
        void adding.finally(() => link.adding.delete(adding));
        break;
      }
      case "relayMuted": {
        const { roomId, linkId, trackId, muted } = event;
        if (link.tracks.get(keyOf(event)) === from)
          quietly(to.relay("muteRelayed", { roomId, linkId, trackId, muted }));
        break;
      }
      case "relayEnded": {
        const { roomId, linkId, trackId } = event;
        if (link.tracks.get(keyOf(event)) !== from) break;
        link.tracks.delete(keyOf(event));
        quietly(to.relay("removeRelayed", { roomId, linkId, trackId }));
        break;
      }
    }
  }

  /** A track belongs to the end that offered it first. */
  #mayOffer(link: RelayLink<E>, from: E, track: RelayedTrackRef): boolean {
    const key = keyOf(track);
    if (link.tracks.size >= MAX_LINK_TRACKS && !link.tracks.has(key)) return false;
    for (const { tracks } of this.#links.values()) if ((tracks.get(key) ?? from) !== from) return false;
    return true;
  }

  #changed(link: RelayLink<E>, from: E, condition: LinkCondition): void {
    const { state } = condition;
    link.states.set(from, condition);
    if (isUp(link)) link.up.resolve();
    if (state !== "down") return;
    this.#close(link);
    this.#output.lost?.(link);
  }

  #find(one: E, two: E): RelayLink<E> | undefined {
    return this.#linksOf(one).find(({ ends }) => ends.includes(two));
  }

  #linksOf(end: E): RelayLink<E>[] {
    return [...this.#links.values()].filter(({ ends }) => ends.includes(end));
  }

  #add(linkId: string, ends: readonly [E, E]): RelayLink<E> {
    const up = Promise.withResolvers<void>();
    up.promise.catch(() => {});
    const link: RelayLink<E> = {
      linkId,
      ends,
      up,
      rooms: new Set(),
      states: new Map(),
      tracks: new Map(),
      adding: new Set(),
    };
    this.#links.set(linkId, link);
    return link;
  }

  #open(one: E, two: E): RelayLink<E> {
    const link = this.#add(randomUUID(), [one, two]);
    const fail = () => this.#close(link);
    const timeout = setTimeout(fail, UP_WITHIN_MS);
    timeout.unref();
    this.#output.open(link).catch(fail);
    const stop = () => clearTimeout(timeout);
    link.up.promise.then(stop, stop);
    return link;
  }

  #close(link: RelayLink<E>, gone?: E): void {
    if (!this.#links.delete(link.linkId)) return;
    link.up.reject(new MediaError("RTC_SERVER_UNREACHABLE", "The link between two media workers is not up."));
    for (const end of link.ends) if (end !== gone) quietly(end.relay("closeLink", { linkId: link.linkId }));
  }
}

export function isUp<E>({ ends, states }: RelayLink<E>): boolean {
  return ends.every((end) => states.get(end)?.state === "up");
}

function other<E>({ ends: [one, two] }: RelayLink<E>, end: E): E {
  return end === one ? two : one;
}

/** Ignores the failure of a request to an end that has died, because the loss of the end cleans up after it. */
function quietly(call: Promise<unknown>): void {
  call.catch(() => {});
}
