import type { IceServers } from "../../features/rooms/ice-servers.ts";
import type { RoomService } from "../../features/rooms/room.service.ts";
import type { RtcTokenService } from "../../features/rooms/rtc-token.service.ts";
import type { OriginPolicy } from "../../kernel/http/origins.ts";
import { createRateLimiter } from "../../kernel/http/rate-limit.ts";
import { rateLimitKey } from "../../kernel/net/addresses.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { createFrameDecoder } from "../../kernel/socket/frame-reader.ts";
import type { Socket, SocketEvents, TopicSocket } from "../../kernel/socket/sockets.ts";
import type { FleetService } from "../../nodes/fleet.ts";
import type { MediaNodes } from "../../nodes/media-nodes.ts";
import type { ParticipantRecords } from "../../nodes/node-server.ts";
import { createPlacements } from "../../nodes/placement.ts";
import { CLOSE_CODES } from "../../protocol/close-codes.ts";
import { ClientFrames } from "../../protocol/signaling.ts";
import { createWhip } from "../whip/whip.ts";
import { type AdoptedSession, createAdoption } from "./adoption.ts";
import { createDrainingNodes } from "./draining-nodes.ts";
import { createEmptyRooms } from "./empty-rooms.ts";
import { createHalfOpenWatch } from "./half-open.ts";
import { createJoin } from "./join.ts";
import { createLiveRooms } from "./live-rooms.ts";
import { createLobby } from "./lobby.ts";
import { createMediaEvents } from "./media-events.ts";
import { createMembership } from "./membership.ts";
import { createPublisherLimit } from "./publisher-limit.ts";
import { refuse } from "./refusal.ts";
import { createRequests } from "./requests.ts";
import { createRoomStates } from "./room-state.ts";
import { createSessionRegistry } from "./rtc-session.ts";
import { openRtcSocket, type RtcSocket, type RtcSocketDeps, type SocketRequest } from "./rtc-socket.ts";
import { createServerRequests } from "./server-requests.ts";
import { addToNode, sealedRecord } from "./session-record.ts";

type SignalingDeps = {
  rooms: RoomService;
  rtcTokens: RtcTokenService;
  iceServers: IceServers;
  fleet: FleetService;
  nodes: MediaNodes;
  originPolicy: (projectId: string) => OriginPolicy;
  isArchived: (projectId: string) => boolean;
  isWaitingRoom: (roomId: string) => boolean;
  isStreamRoom: (roomId: string) => boolean;
};

const MAX_SHOWN_ROOMS = 100;

export type Signaling = ReturnType<typeof createSignaling>;
export type SignalingCore = Signaling["core"];

export function createSignaling(runtime: Runtime, deps: SignalingDeps) {
  const { bus, config, metrics, now } = runtime;
  const { rtcTokens, fleet, nodes, originPolicy, isArchived } = deps;
  const registry = createSessionRegistry();
  const placements = createPlacements(runtime, fleet, nodes, {
    room: registry.room,
    hasTrack: (roomId, serverName, trackId) =>
      [...(registry.room(roomId)?.sessions.values() ?? [])].some(
        ({ site, tracks }) => site.serverName === serverName && tracks.has(trackId),
      ),
    unreachable: (room, serverName) => membership.moveAway(room.id, serverName),
  });
  const membership = createMembership(runtime, { registry, placements });
  const lobby = createLobby(runtime, { ...deps, registry, membership });
  const roomStates = createRoomStates(runtime, { ...deps, registry, membership, lobby });
  const join = createJoin(runtime, { ...deps, registry, placements, membership, lobby, roomStates });
  const publisherLimit = createPublisherLimit(config);
  const requests = createRequests(now, { membership, publisherLimit, lobby, roomStates });
  const limiter = createRateLimiter(now, config.RATE_LIMIT_WINDOW_SECONDS);
  const serverRequests = createServerRequests(runtime);
  const sockets = new Set<RtcSocket>();
  const watch = createHalfOpenWatch(runtime);
  let draining = false;

  let adopted: (sessions: AdoptedSession[]) => void = () => {};
  const adopt = createAdoption(runtime, {
    ...deps,
    registry,
    membership,
    placements,
    adopted: (sessions) => adopted(sessions),
  });
  nodes.onEvent(createMediaEvents({ registry, membership, placements, adopt, serverRequests }));
  bus.on("streamChanged", ({ roomId, status }) => {
    const room = status === "LIVE" ? registry.room(roomId) : undefined;
    if (room) membership.releaseWaiting(room);
  });
  bus.on("roomClosed", ({ roomId, reason }) => {
    const room = registry.room(roomId);
    if (room) membership.dismissAll(room, reason === "stream_ended" ? "stream_ended" : "room_closed");
  });
  bus.on("recordingChanged", ({ roomId, active }) => {
    const room = registry.room(roomId);
    if (!room) return;
    room.recording = active;
    membership.broadcast(room, { type: "recording.changed", active });
  });
  bus.on("liveVerdictChanged", ({ sessionId, verdict }) => {
    const session = registry.session(sessionId);
    if (session) membership.push(session, { type: "quality.explained", ...verdict });
  });
  bus.on("participantRemoved", ({ roomId, identity }) => {
    const session = registry.find(roomId, identity);
    if (session) membership.dismiss(session, "removed");
  });
  bus.on("rtcTokenRevoked", ({ tokenId, roomId }) => {
    for (const session of [...(registry.room(roomId)?.sessions.values() ?? [])]) {
      if (session.tokenId === tokenId) membership.dismiss(session, "revoked");
    }
  });
  bus.on("projectChanged", ({ projectId }) => {
    if (!isArchived(projectId)) return;
    for (const room of registry.rooms()) if (room.projectId === projectId) membership.dismissAll(room, "revoked");
  });
  metrics.gaugeOf("stoa_rtc_sessions", "Participants in rooms", () => registry.sessions().length);
  metrics.gaugeOf("stoa_rtc_rooms", "Rooms with participants", () => registry.rooms().length);

  const socketDeps: RtcSocketDeps = {
    runtime,
    rtcTokens,
    membership,
    join,
    lobby,
    requests,
    decode: createFrameDecoder(ClientFrames),
    originPolicy,
    isPresent: (roomId, identity) => registry.find(roomId, identity) !== undefined,
    admissionRefusal(ipAddress) {
      if (draining) return refuse("SVC_SHUTTING_DOWN", CLOSE_CODES.restart);
      const verdict = limiter.take("signaling", rateLimitKey(ipAddress), config.SIGNALING_MAX_CONNECTIONS_PER_WINDOW);
      return verdict.allowed ? null : refuse("SVC_RATE_LIMITED", CLOSE_CODES.tooManyAttempts, verdict.resetSeconds);
    },
  };

  function drain(options: { keepMedia?: boolean } = {}): void {
    draining = true;
    for (const socket of sockets) socket.refuse(refuse("SVC_SHUTTING_DOWN", CLOSE_CODES.restart));
    for (const room of registry.rooms()) membership.dismissAll(room, "restart", options);
  }

  return {
    liveRooms: createLiveRooms(registry, membership, lobby, placements),

    /** The interface by which gateways of other protocols use the same rooms. */
    core: {
      registry,
      membership,
      join,
      requests,
      serverRequests,
      watch,
      publisherLimit,
      /** The gateway that continues the sessions of an earlier process of this server. */
      onAdopted(listener: typeof adopted): void {
        adopted = listener;
      },
      turnedAway: socketDeps.admissionRefusal,
      /** Rejects new participants while the server stops, regardless of limits. */
      isDraining: () => draining,
    },
    /** The links between media nodes, and the largest of the rooms that use them. */
    links() {
      const links = placements.links();
      const ids = new Set(links.flatMap(({ roomIds }) => roomIds));
      const rooms = [...ids].flatMap((id) => registry.room(id) ?? []).sort((a, b) => b.sessions.size - a.sessions.size);
      return {
        links: links.map(({ roomIds, ...link }) => ({ ...link, rooms: roomIds.length })),
        rooms: rooms.slice(0, MAX_SHOWN_ROOMS).map(({ id, projectId, name, sites, sessions }) => ({
          id,
          projectId,
          name,
          sites: [...sites.values()].map(({ serverName, region }) => ({
            serverName,
            region,
            participants: [...sessions.values()].filter(({ site }) => site.serverName === serverName).length,
          })),
          links: links.flatMap((link) => (link.roomIds.includes(id) ? link.id : [])),
        })),
      };
    },

    emptyRooms: createEmptyRooms(runtime, { rooms: deps.rooms, registry }),
    drainingNodes: createDrainingNodes(runtime, { fleet, placements, registry, membership }),
    whip: createWhip(runtime, {
      registry,
      membership,
      join,
      publisherLimit,
      rooms: deps.rooms,
      turnedAway: socketDeps.admissionRefusal,
    }),

    connect(socket: Socket | TopicSocket, request: SocketRequest): SocketEvents {
      const opened = openRtcSocket(socketDeps, socket, request);
      sockets.add(opened);
      return watch(socket, {
        received: opened.received,
        closed(code) {
          sockets.delete(opened);
          opened.closed(code);
        },
      });
    },

    /** Rejects new sockets and disconnects all participants, who reconnect to the next server. */
    drain,

    /**
     * Returns the records of the participants on the node `from`, which the next process calls `to`, and disconnects all: they
     * resume their sessions there.
     */
    async handOver(from: string, to: string): Promise<ParticipantRecords> {
      const { keyring } = runtime;
      const records: ParticipantRecords = new Map();
      const saved: Promise<void>[] = [];
      for (const session of registry.sessions()) {
        if (session.site.serverName === from) {
          const room = records.get(session.room.id) ?? new Map<string, string>();
          const record = sealedRecord(keyring, session, { serverName: to, withGateway: true });
          records.set(session.room.id, room.set(session.id, record));
        } else if (session.gatewayState) saved.push(addToNode(keyring, session, { withGateway: true }));
      }
      drain({ keepMedia: true });
      // A client of another node whose record could not be saved joins again.
      await Promise.allSettled(saved);
      return records;
    },
  };
}
