/** Which media node a participant is on. A room begins on one, its main site, and is linked to others as they are needed. */
import type { Runtime } from "../kernel/runtime.ts";
import { ApiError } from "../protocol/errors.ts";
import { MediaError, type MediaEvent, type MediaNode } from "../protocol/media-node.ts";
import type { FleetService } from "./fleet.ts";
import type { MediaNodes } from "./media-nodes.ts";
import { createNodeLinks } from "./node-links.ts";
import { allocate, isOverloaded } from "./registration/allocation.ts";

/** A media node on which a room is open. */
export type Placed = { serverName: string; region: string; node: MediaNode };

/** A room and the nodes that have participants of it. */
export type PlacedRoom = {
  readonly id: string;
  readonly region: string | null;
  /** The nodes by name. The first one is the main site. */
  readonly sites: Map<string, Placed>;
};

/** The site that knows the speakers of the room. */
export const mainOf = ({ sites }: PlacedRoom): Placed | null => sites.values().next().value ?? null;

type PlacementsOutput = {
  room(roomId: string): PlacedRoom | undefined;
  hasTrack(roomId: string, serverName: string, trackId: string): boolean;
  /** Called when the other nodes of the room cannot hear this one. */
  unreachable(room: PlacedRoom, serverName: string): void;
};

export type Placements = ReturnType<typeof createPlacements>;

/** After a failure, two nodes are not linked again for this long. */
const LINK_AGAIN_AFTER_MS = 30_000;
/** A node that responds sends something at least every two seconds. */
const UNHEARD_AFTER_MS = 2_500;
/** How long after a restart to wait for the second end of a link. */
const PAIRED_WITHIN_MS = 8_000;

const isConnected = ({ node }: Placed): boolean => node.remote?.connected !== false;
const isHeard = ({ node }: Placed): boolean => (node.remote?.silentMs ?? 0) < UNHEARD_AFTER_MS;

export function createPlacements(
  { config, log, metrics, now, timers }: Runtime,
  fleet: FleetService,
  nodes: MediaNodes,
  output: PlacementsOutput,
) {
  const roomsOn = new Map<string, number>();
  /** Placements run one after another for each room, so that every site is linked to all others. */
  const placing = new Map<PlacedRoom, Promise<unknown>>();
  /** Opening a room again waits for its closing, because the two requests could overtake each other. */
  const closing = new Map<string, Promise<void>>();
  /** Nodes that could not be linked, each with the time until which no further room is opened on it. */
  const unlinkable = new Map<string, number>();
  const links = createNodeLinks({
    hasTrack: output.hasTrack,
    split(roomId, serverNames) {
      const room = output.room(roomId);
      if (room) split(room, serverNames);
    },
  });
  metrics.gaugeOf("stoa_node_links", "Links between media nodes that share rooms", () => links.size);
  metrics.gaugeOf("stoa_node_link_rtt_ms", "The longest round trip between two linked media nodes", () => {
    const trips = [...links.all()].flatMap(({ states }) => [...states.values()].map(({ rttMs }) => rttMs ?? 0));
    return Math.max(0, ...trips);
  });
  nodes.onEvent(received);

  function count(serverName: string, change: 1 | -1): void {
    const rooms = (roomsOn.get(serverName) ?? 0) + change;
    if (rooms > 0) roomsOn.set(serverName, rooms);
    else roomsOn.delete(serverName);
  }

  function add(room: PlacedRoom, site: Placed): Placed {
    if (!room.sites.has(site.serverName)) count(site.serverName, 1);
    room.sites.set(site.serverName, site);
    return site;
  }

  function forget(room: PlacedRoom, serverName: string): void {
    links.leave(room.id, serverName);
    if (room.sites.delete(serverName)) count(serverName, -1);
  }

  const candidates = () => fleet.candidates((name) => roomsOn.get(name) ?? 0);

  /**
   * If two nodes cannot reach each other, one has to leave the room. A node that reaches the control plane stays, then the one that
   * reaches more of the other nodes, then the main site.
   */
  function split(room: PlacedRoom, serverNames: readonly string[]): void {
    const present = [...room.sites.values()].filter(({ serverName }) => serverNames.includes(serverName));
    const rank = (site: Placed) => (isHeard(site) ? room.sites.size : 0) + links.heardBy(room.id, site.serverName);
    const [stays, gone] = present.sort((a, b) => rank(b) - rank(a));
    if (!stays || !gone) return;
    log.warn(
      { roomId: room.id, stays: stays.serverName, gone: gone.serverName },
      "placement: media nodes cannot reach each other, one leaves the room",
    );
    unlinkable.set(gone.serverName, now() + LINK_AGAIN_AFTER_MS);
    output.unreachable(room, gone.serverName);
  }

  async function open(room: PlacedRoom, names: readonly { name: string; region: string }[]): Promise<Placed | null> {
    const { id: roomId } = room;
    for (const { name: serverName, region } of names) {
      const node = nodes.find(serverName);
      const others = [...room.sites.values()];
      if (!node || (others.length > 0 && !mayLink(room, { serverName, node }))) continue;
      await closing.get(`${serverName} ${roomId}`);
      const site = { serverName, region, node };
      try {
        await node.openRoom({ roomId });
        await links.share(roomId, others, site);
        // Nodes may have reported the room meanwhile.
        const found = [...room.sites.values()].filter((one) => !others.includes(one) && one.serverName !== serverName);
        await links.share(roomId, found, site);
        return add(room, site);
      } catch (error) {
        if (!(error instanceof MediaError)) throw error;
        log.warn({ serverName, roomId, code: error.code }, "placement: media node failed to open the room");
        if (others.length === 0) continue;
        if (others.every(isConnected)) unlinkable.set(serverName, now() + LINK_AGAIN_AFTER_MS);
        release(room, site);
      }
    }
    return null;
  }

  function mayLink(room: PlacedRoom, site: Pick<Placed, "serverName" | "node">): boolean {
    if (config.MEDIA_SPREAD === "off") return false;
    if ((unlinkable.get(site.serverName) ?? 0) > now()) return false;
    return [site, ...room.sites.values()].every(links.supports);
  }

  /** Lost, draining and overloaded nodes get no more participants if another node can take them. */
  function accepts(site: Placed, all: ReturnType<typeof candidates>): boolean {
    const row = all.find(({ name }) => name === site.serverName);
    return isConnected(site) && (row === undefined || (row.status === "HEALTHY" && !isOverloaded(row)));
  }

  async function choose(room: PlacedRoom, region: string | null): Promise<Placed> {
    const main = mainOf(room);
    const all = candidates();
    const preferred = allocate(all, region ?? room.region ?? config.SFU_REGION);
    if (!main) {
      const first = await open(room, preferred);
      if (first) return first;
      throw new ApiError("SVC_NO_RTC_CAPACITY");
    }
    const open_ = [...room.sites.values()].filter((site) => accepts(site, all));
    const near = open_.find((site) => site.region === region);
    if (near) return near;
    const isNew = ({ name }: { name: string }) => !room.sites.has(name);
    const here = region === null ? [] : preferred.filter((one) => one.region === region && isNew(one));
    const opened = await open(room, here);
    return opened ?? open_[0] ?? (await open(room, preferred.filter(isNew))) ?? main;
  }

  function release(room: PlacedRoom, { node, serverName }: Placed): void {
    forget(room, serverName);
    const key = `${serverName} ${room.id}`;
    const closed = node
      .closeRoom({ roomId: room.id })
      .catch((err) => log.warn({ err, serverName, roomId: room.id }, "placement: closing the room failed"))
      .then(() => {
        if (closing.get(key) === closed) closing.delete(key);
      });
    closing.set(key, closed);
  }

  /**
   * Links sites that have no link yet: sites that were found after a restart, or whose room moved to another worker after a crash.
   */
  async function linkAll(room: PlacedRoom): Promise<void> {
    const sites = [...room.sites.values()];
    for (const [index, site] of sites.entries()) {
      for (const other of sites.slice(0, index)) {
        if (links.isShared(room.id, other.serverName, site.serverName)) continue;
        await links.share(room.id, [other], site).catch(() => split(room, [other.serverName, site.serverName]));
        // The last participant of a site may have left meanwhile.
        for (const { serverName } of [other, site]) if (!room.sites.has(serverName)) links.leave(room.id, serverName);
      }
    }
  }

  function received(serverName: string, event: MediaEvent): void {
    switch (event.type) {
      case "linkChanged":
      case "relayOffered":
      case "relayMuted":
      case "relayEnded":
      case "relayData":
        links.received(serverName, event);
        break;
      case "workerCrashed":
        for (const { roomId, remains } of event.rooms) {
          const room = output.room(roomId);
          if (!remains || !room?.sites.has(serverName) || room.sites.size < 2) continue;
          if (!links.endsAt(roomId, serverName, event.worker)) continue;
          links.leave(roomId, serverName);
          void linkAll(room);
        }
        break;
    }
  }

  return {
    /** The node for the next participant; opens the room there. Throws `SVC_NO_RTC_CAPACITY` when no node accepts it. */
    async place(room: PlacedRoom, region: string | null = null): Promise<Placed> {
      const before = placing.get(room) ?? Promise.resolve();
      const placed = before.catch(() => {}).then(() => choose(room, region));
      placing.set(room, placed);
      try {
        return await placed;
      } finally {
        if (placing.get(room) === placed) placing.delete(room);
      }
    },

    /** Keeps the room on a node that reported it. Returns false if the room cannot be on this node as well. */
    adopt(room: PlacedRoom, site: Placed): boolean {
      if (room.sites.has(site.serverName)) return false;
      if ((room.sites.size > 0 || placing.has(room)) && !mayLink(room, site)) return false;
      add(room, site);
      return true;
    },

    /** Called when all rooms of the node have been adopted. */
    adopted(serverName: string, found: Extract<MediaEvent, { type: "roomsFound" }>): void {
      const node = nodes.find(serverName);
      if (!node) return;
      const paired = links.adopt({ serverName, node }, found.links);
      timers.after(PAIRED_WITHIN_MS, () => {
        links.closeUnpaired(serverName);
        for (const { roomId } of found.rooms) {
          const room = output.room(roomId);
          if (room) void paired.then(() => linkAll(room));
        }
      });
    },

    /** Closes the room on its node. */
    release,

    links: links.describe,
    linksInto: links.into,

    /** The node was lost or no longer knows the room, so nothing is closed. */
    forget,

    /** Whether another node could take the participants of this one. */
    hasAlternative: (serverName: string): boolean =>
      config.MEDIA_SPREAD !== "off" &&
      allocate(candidates(), config.SFU_REGION).some(({ name }) => {
        const node = nodes.find(name);
        return name !== serverName && node !== null && links.supports({ node });
      }),
  };
}
