/** The links between the media workers of this process, over their own sockets on loopback. */
import { randomBytes } from "node:crypto";
import { MediaError } from "../protocol/media-node.ts";
import type { RelayEvent, WorkerMethod, WorkerRequest, WorkerResponse } from "../sfu/worker-protocol.ts";

const UP_WITHIN_MS = 3_000;
const KEY_BYTES = 16;
const SALT_BYTES = 12;

/** A media worker, as its links use it. */
export interface LinkedWorker {
  readonly index: number;
  /** The address and port of its media socket. */
  readonly address: string;
  readonly port: number;
  call<M extends WorkerMethod>(method: M, request: WorkerRequest<M>): Promise<WorkerResponse<M>>;
}

type Link<W> = {
  linkId: string;
  workers: readonly [W, W];
  /** The rooms that use it. */
  rooms: Set<string>;
  /** The workers that have heard the other. */
  heard: Set<W>;
  up: PromiseWithResolvers<void>;
};

export class WorkerLinks<W extends LinkedWorker> {
  readonly #links = new Map<string, Link<W>>();
  #nextId = 1;

  get size(): number {
    return this.#links.size;
  }

  /** The tracks of the room on either worker become available on the other. Resolves when all of them are. */
  async share(roomId: string, one: W, other: W): Promise<void> {
    const link = this.#find(one, other) ?? this.#open(one, other);
    link.rooms.add(roomId);
    await link.up.promise;
    const { linkId } = link;
    await Promise.all(link.workers.map((worker) => worker.call("shareRoom", { roomId, linkId })));
    // What the other worker has offered was passed on before its answer, and this call comes after it.
    await Promise.all(link.workers.map((worker) => worker.call("rooms", undefined)));
  }

  /** The room ends on `gone`. */
  unshare(roomId: string, gone: W): void {
    for (const link of this.#linksOf(gone)) {
      if (!link.rooms.delete(roomId)) continue;
      for (const worker of link.workers) quietly(worker.call("unshareRoom", { roomId, linkId: link.linkId }));
      if (link.rooms.size === 0) this.#close(link);
    }
  }

  /** The worker has crashed: its tracks end on the others. */
  lost(worker: W): void {
    for (const link of this.#linksOf(worker)) this.#close(link, worker);
  }

  received(worker: W, event: RelayEvent): void {
    if (event.type === "linkUp") {
      const link = this.#links.get(event.linkId);
      if (link?.heard.add(worker).size === 2) link.up.resolve();
    } else if (event.type === "relayOffered") {
      const link = this.#links.get(event.track.linkId);
      if (link) quietly(other(link, worker).call("addRelayed", event.track));
    } else {
      const { roomId } = event.data;
      for (const link of this.#linksOf(worker))
        if (link.rooms.has(roomId)) quietly(other(link, worker).call("deliverRelayed", event.data));
    }
  }

  /** A track of this worker was muted, unmuted or has ended. */
  changed(worker: W, change: { roomId: string; trackId: string }, muted: boolean | "ended"): void {
    for (const link of this.#linksOf(worker)) {
      if (!link.rooms.has(change.roomId)) continue;
      const ref = { ...change, linkId: link.linkId };
      const to = other(link, worker);
      quietly(muted === "ended" ? to.call("removeRelayed", ref) : to.call("muteRelayed", { ...ref, muted }));
    }
  }

  #find(one: W, other: W): Link<W> | undefined {
    return this.#linksOf(one).find(({ workers }) => workers.includes(other));
  }

  #linksOf(worker: W): Link<W>[] {
    return [...this.#links.values()].filter(({ workers }) => workers.includes(worker));
  }

  #open(one: W, two: W): Link<W> {
    const linkId = `${one.index}-${two.index}-${this.#nextId++}`;
    const up = Promise.withResolvers<void>();
    const link: Link<W> = { linkId, workers: [one, two], rooms: new Set(), heard: new Set(), up };
    this.#links.set(linkId, link);
    const [forth, back] = [masterKey(), masterKey()];
    const fail = (error: Error) => {
      this.#close(link);
      up.reject(error);
    };
    up.promise.catch(() => {});
    const opening = [
      one.call("openLink", { linkId, peer: socketOf(two), keys: { incoming: back, outgoing: forth } }),
      two.call("openLink", { linkId, peer: socketOf(one), keys: { incoming: forth, outgoing: back } }),
    ];
    const timeout = setTimeout(
      () => fail(new MediaError("RTC_SERVER_UNREACHABLE", "The link is not up.")),
      UP_WITHIN_MS,
    );
    timeout.unref();
    Promise.all(opening).catch(fail);
    up.promise.then(() => clearTimeout(timeout)).catch(() => clearTimeout(timeout));
    return link;
  }

  #close(link: Link<W>, gone?: W): void {
    if (!this.#links.delete(link.linkId)) return;
    link.up.reject(new MediaError("RTC_SERVER_UNREACHABLE", "The link was closed."));
    for (const worker of link.workers) if (worker !== gone) quietly(worker.call("closeLink", { linkId: link.linkId }));
  }
}

function other<W>({ workers: [one, two] }: Link<W>, worker: W): W {
  return worker === one ? two : one;
}

/** What fails because a worker has died meanwhile is cleaned up with its crash. */
function quietly(call: Promise<unknown>): void {
  call.catch(() => {});
}

function masterKey() {
  return {
    profile: "AEAD_AES_128_GCM" as const,
    key: new Uint8Array(randomBytes(KEY_BYTES)),
    salt: new Uint8Array(randomBytes(SALT_BYTES)),
  };
}

/** A socket that is bound to all addresses is reached on loopback, and one that receives both families names it by its mapped form. */
function socketOf({ address, port }: LinkedWorker): { address: string; port: number } {
  if (address === "::") return { address: "::ffff:127.0.0.1", port };
  return { address: address === "0.0.0.0" ? "127.0.0.1" : address, port };
}
