/**
 * The links between the media nodes of rooms that span several nodes. The nodes make their own keys; only the public halves pass
 * through here.
 */
import { randomBytes } from "node:crypto";
import { isIP } from "node:net";
import { targetOf } from "../kernel/net/targets.ts";
import { LINK_STATES } from "../protocol/enums.ts";
import type {
  LinkCondition,
  LinkPoint,
  LinkState,
  OpenedLink,
  OpenNodeLink,
  RelayCall,
  RelayCalls,
} from "../protocol/media/relay.ts";
import type { MediaNode, RelayEvent } from "../protocol/media-node.ts";
import { isUp, type LinkEnd, type RelayLink, RelayLinks } from "./relay-links.ts";

type Site = { serverName: string; node: MediaNode };

/** The worker of a node at which the links of a room end. */
class NodeEnd implements LinkEnd {
  constructor(
    readonly serverName: string,
    readonly point: LinkPoint,
    readonly node: MediaNode,
  ) {}

  relay<M extends keyof RelayCalls>(method: M, request: RelayCalls[M]): Promise<unknown> {
    return this.node.relay({ method, request } as RelayCall);
  }
}

/** Other nodes send checks to the address that a node reports, so it must not be a multicast group or a cloud's metadata service. */
const mayBeNode = (address: string): boolean => isIP(address) !== 0 && targetOf(address) !== "forbidden";

type NodeLinksOutput = {
  /** Called when two nodes of a room stop hearing each other. */
  split(roomId: string, serverNames: readonly string[]): void;
  /** Whether the track is published on that node. */
  hasTrack(roomId: string, serverName: string, trackId: string): boolean;
};

/** A link between two media nodes, with the worse figures of its two ends. */
export type ServerLink = {
  id: string;
  servers: [string, string];
  /** Null until both ends have reported that they hear each other. */
  state: LinkState | null;
  rttMs: number | null;
  lossPercent: number | null;
  /** The limit of the narrower direction; null while everything fits. */
  limitBps: number | null;
  /** The number of tracks that can cross the link. */
  tracks: number;
  roomIds: string[];
};

function describe({ linkId, ends: [one, two], states, tracks, rooms }: RelayLink<NodeEnd>): ServerLink {
  const said = [...states.values()];
  const worst = Math.max(...said.map(({ state }) => LINK_STATES.indexOf(state)));
  return {
    id: linkId,
    servers: [one.serverName, two.serverName],
    state: LINK_STATES[said.length < 2 ? -1 : worst] ?? null,
    ...worstOf(said),
    tracks: tracks.size,
    roomIds: [...rooms],
  };
}

type Figures = Pick<ServerLink, "rttMs" | "lossPercent" | "limitBps">;

function worstOf(conditions: readonly LinkCondition[]): Figures {
  const known = (of: (condition: LinkCondition) => number | null | undefined) =>
    conditions.map(of).filter((value) => typeof value === "number");
  const [trips, losses, limits] = [
    known(({ rttMs }) => rttMs),
    known(({ lossPercent }) => lossPercent),
    known(({ limitBps }) => limitBps),
  ];
  return {
    rttMs: trips.length === 0 ? null : Math.max(...trips),
    lossPercent: losses.length === 0 ? null : Math.max(...losses),
    limitBps: limits.length === 0 ? null : Math.min(...limits),
  };
}

export function createNodeLinks(output: NodeLinksOutput) {
  const ends = new Map<string, NodeEnd>();
  const rooms = new Map<string, Map<string, NodeEnd>>();
  /** Links that one of their two nodes has reported after a restart, until the other one reports them too. */
  const found = new Map<string, { site: Site; link: OpenedLink }>();
  const links = new RelayLinks<NodeEnd>({
    open: ({ linkId, ends: [one, two] }) => {
      const credentials = [one, two].map(() => ({
        ufrag: randomBytes(9).toString("hex"),
        pwd: randomBytes(24).toString("hex"),
      })) as [OpenNodeLink["credentials"], OpenNodeLink["credentials"]];
      return Promise.all([
        one.node.relay({ method: "openLink", request: requestOf(linkId, one, two, credentials) }),
        two.node.relay({ method: "openLink", request: requestOf(linkId, two, one, [credentials[1], credentials[0]]) }),
      ]);

      function requestOf(id: string, own: NodeEnd, peer: NodeEnd, [local, remote]: typeof credentials): OpenNodeLink {
        const { publicKey, addresses, port } = peer.point;
        const { worker } = own.point;
        return {
          linkId: id,
          worker,
          isFirst: own === one,
          credentials: local,
          peer: { publicKey, addresses: addresses.filter(mayBeNode), port, credentials: remote },
        };
      }
    },
    lost(link) {
      for (const roomId of link.rooms)
        output.split(
          roomId,
          link.ends.map(({ serverName }) => serverName),
        );
    },
  });

  async function endOf(roomId: string, { serverName, node }: Site): Promise<NodeEnd> {
    const known = rooms.get(roomId)?.get(serverName);
    if (known?.node === node) return known;
    const point = await node.linkPoint({ roomId });
    const key = `${serverName} ${point.worker} ${point.publicKey}`;
    const before = ends.get(key);
    const end = before?.node === node ? before : new NodeEnd(serverName, point, node);
    ends.set(key, end);
    const inRoom = rooms.get(roomId) ?? new Map<string, NodeEnd>();
    rooms.set(roomId, inRoom.set(serverName, end));
    return end;
  }

  function leave(roomId: string, serverName: string): void {
    const inRoom = rooms.get(roomId);
    const end = inRoom?.get(serverName);
    if (!inRoom || !end) return;
    links.unshare(roomId, end);
    inRoom.delete(serverName);
    if (inRoom.size === 0) rooms.delete(roomId);
    for (const one of rooms.values()) if (one.get(serverName) === end) return;
    for (const [key, one] of ends) if (one === end) ends.delete(key);
  }

  async function pair(one: { site: Site; link: OpenedLink }, two: { site: Site; link: OpenedLink }): Promise<void> {
    const { linkId } = one.link;
    const shared = one.link.rooms.filter((roomId) => two.link.rooms.includes(roomId));
    const [first] = shared;
    if (first === undefined) return void [one, two].map(({ site }) => close(site, linkId));
    const both = await Promise.all([endOf(first, one.site), endOf(first, two.site)]);
    for (const roomId of shared) for (const { site } of [one, two]) await endOf(roomId, site);
    for (const [here, there] of [
      [one, two],
      [two, one],
    ] as const) {
      for (const { roomId, trackId } of here.link.tracks) {
        if (output.hasTrack(roomId, there.site.serverName, trackId)) continue;
        here.site.node.relay({ method: "removeRelayed", request: { linkId, roomId, trackId } }).catch(() => {});
      }
    }
    links.adopt(linkId, both, shared);
  }

  function close({ node }: Site, linkId: string): void {
    node.relay({ method: "closeLink", request: { linkId } }).catch(() => {});
  }

  return {
    /** Nodes of earlier versions have no links. */
    supports: ({ node }: Pick<Site, "node">): boolean => node.remote?.links ?? true,

    /** Resolves when the other sites' tracks are available on the node, and the node's tracks on the other sites. */
    async share(roomId: string, others: readonly Site[], site: Site): Promise<void> {
      if (others.length === 0) return;
      const end = await endOf(roomId, site);
      for (const other of others) await links.share(roomId, await endOf(roomId, other), end);
    },

    isShared(roomId: string, one: string, two: string): boolean {
      const [a, b] = [rooms.get(roomId)?.get(one), rooms.get(roomId)?.get(two)];
      return a !== undefined && b !== undefined && links.isShared(roomId, a, b);
    },

    /** Returns how many other nodes of the room have a working link with this one. */
    heardBy(roomId: string, serverName: string): number {
      const end = rooms.get(roomId)?.get(serverName);
      let count = 0;
      for (const link of links.all())
        if (end && link.rooms.has(roomId) && link.ends.includes(end) && isUp(link)) count += 1;
      return count;
    },

    /** Whether the node's end of the room's links is at that worker. */
    endsAt: (roomId: string, serverName: string, worker: number | null): boolean =>
      rooms.get(roomId)?.get(serverName)?.point.worker === worker,

    /** Called when the room ends on the node, or has moved to another of its workers. */
    leave,

    received(serverName: string, event: RelayEvent): void {
      const end =
        event.type === "relayData"
          ? rooms.get(event.data.roomId)?.get(serverName)
          : links
              .get(event.type === "relayOffered" ? event.track.linkId : event.linkId)
              ?.ends.find((one) => one.serverName === serverName);
      if (end) links.received(end, event);
    },

    /** Keeps the links that both of their nodes have had since before this process started; media keeps flowing. */
    async adopt(site: Site, opened: readonly OpenedLink[]): Promise<void> {
      for (const link of opened) {
        const other = found.get(link.linkId);
        if (!other || other.site.serverName === site.serverName) found.set(link.linkId, { site, link });
        else {
          found.delete(link.linkId);
          await pair(other, { site, link }).catch(() => {
            for (const { serverName, node } of [other.site, site]) close({ serverName, node }, link.linkId);
          });
        }
      }
    },

    /** Closes links whose other node has not come back. */
    closeUnpaired(serverName: string): void {
      for (const [linkId, { site }] of found) {
        if (site.serverName !== serverName) continue;
        found.delete(linkId);
        close(site, linkId);
      }
    },

    all: () => links.all(),

    describe: (): ServerLink[] => [...links.all()].map(describe),

    /** The worst figures of what arrives at the node from the room's other nodes. */
    into(roomId: string, serverName: string): Figures {
      const end = rooms.get(roomId)?.get(serverName);
      const towards = [...links.all()].filter(
        ({ rooms: ids, ends: both }) => ids.has(roomId) && end && both.includes(end),
      );
      const here = towards.flatMap(({ states }) => (end && states.get(end)) ?? []);
      const there = towards.flatMap(({ states, ends: both }) =>
        both.flatMap((one) => (one === end ? [] : (states.get(one) ?? []))),
      );
      return { ...worstOf(here), limitBps: worstOf(there).limitBps };
    },
    get size(): number {
      return links.size;
    },
  };
}
