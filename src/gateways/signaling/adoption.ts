import type { RoomService } from "../../features/rooms/room.service.ts";
import type { RtcTokenService } from "../../features/rooms/rtc-token.service.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { FleetService } from "../../nodes/fleet.ts";
import type { MediaNodes } from "../../nodes/media-nodes.ts";
import type { Placed, Placements } from "../../nodes/placement.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { MediaEvent, MediaNode, ParticipantSnapshot, RoomSnapshot } from "../../protocol/media-node.ts";
import type { Membership } from "./membership.ts";
import type { SessionRegistry } from "./rtc-session.ts";
import { createPushes, type LiveRoom, type RtcSession } from "./rtc-session.ts";
import { decryptRecord, type SessionRecord } from "./session-record.ts";

type AdoptionDeps = {
  registry: SessionRegistry;
  membership: Membership;
  placements: Placements;
  rooms: RoomService;
  rtcTokens: RtcTokenService;
  fleet: FleetService;
  nodes: MediaNodes;
  isWaitingRoom: (roomId: string) => boolean;
  /** Called with the sessions of a room that a gateway had in an earlier process of this server. */
  adopted: (sessions: AdoptedSession[]) => void;
};

export type AdoptedSession = { session: RtcSession; gateway: unknown };

/**
 * Takes over calls that a remote node kept while this process restarted. Their participants are restored as if only
 * their sockets had dropped: they resume, or leave when the resume window ends.
 */
export function createAdoption({ keyring, log, now }: Runtime, deps: AdoptionDeps) {
  const { registry, membership, placements, rooms, rtcTokens, fleet, nodes, isWaitingRoom } = deps;

  function adoptRoom(serverName: string, node: MediaNode, { roomId, participants }: RoomSnapshot): void {
    const found = participants.flatMap((participant) => {
      const record = decryptRecord(keyring, { serverName, roomId }, participant);
      // A participant of a room on two nodes may have joined again on the node that was found first.
      return record === null || registry.find(roomId, participant.identity) ? [] : [{ participant, record }];
    });
    const site: Placed = { serverName, region: fleet.regionOf(serverName), node };
    const room = found[0] && liveRoom(roomId, found[0].record);
    if (!room || !placements.adopt(room, site)) {
      node
        .closeRoom({ roomId })
        .catch((err) => log.warn({ err, roomId }, "signaling: media node did not close the room"));
      return;
    }
    removeOthers(serverName, node, { roomId, participants }, new Set(found.map(({ participant }) => participant)));
    const adopted: AdoptedSession[] = [];
    for (const { participant, record } of found) {
      const session = sessionOf(room, site, participant, record);
      registry.add(session);
      if (rtcTokens.isRevoked(record.tokenId)) membership.leave(session, "revoked", { quietly: true });
      else {
        if (record.gateway !== undefined) adopted.push({ session, gateway: record.gateway });
        restore(session, participant, record);
      }
    }
    deps.adopted(adopted);
    membership.releaseIfEmpty(room);
  }

  /** Removes participants that do not belong to the room, who would be heard in it under any name that the node gives them. */
  function removeOthers(
    serverName: string,
    node: MediaNode,
    room: RoomSnapshot,
    known: Set<ParticipantSnapshot>,
  ): void {
    const { roomId, participants } = room;
    const others = participants.filter((participant) => !known.has(participant));
    if (others.length > 0)
      log.warn({ serverName, roomId, count: others.length }, "signaling: media node reports unknown participants");
    for (const { participantId } of others)
      node
        .removeParticipant({ roomId, participantId })
        .catch((err) => log.warn({ err, roomId }, "signaling: media node did not remove the participant"));
  }

  /** Null when the room is closed. */
  function liveRoom(roomId: string, { projectId, environment }: SessionRecord): LiveRoom | null {
    try {
      return registry.roomFor(rooms.findActive({ projectId, environment, roomId }));
    } catch (error) {
      if (error instanceof ApiError) return null;
      throw error;
    }
  }

  function sessionOf(
    room: LiveRoom,
    site: Placed,
    participant: ParticipantSnapshot,
    record: SessionRecord,
  ): RtcSession {
    const { connectionId, tokenId, joinedAt, resumeToken, metadata, client } = record;
    // The node's record may be older than the latest permissions.
    const permissions = rtcTokens.effectivePermissions(room.id, participant.identity, record.permissions);
    return {
      connectionId,
      tokenId,
      joinedAt,
      resumeToken,
      permissions,
      metadata,
      client,
      ...record.profile,
      hidden: record.hidden,
      id: participant.participantId,
      room,
      site,
      identity: participant.identity,
      // The sequence numbers start above those that any client has seen, so that each gets a snapshot instead of missed
      // pushes.
      pushes: createPushes(now()),
      link: { state: "joining" },
      moved: false,
      waiting: !permissions.publish && isWaitingRoom(room.id),
      roster: record.roster ?? "all",
      order: 0,
      announced: !record.hidden,
      listed: !record.hidden && participant.tracks.length > 0,
      publishes: participant.tracks.length > 0,
      cancelAnnouncement: () => {},
      wantsMedia: participant.state !== "new",
      media: participant.state,
      stats: participant.transport,
      tracks: new Map(participant.tracks.map((track) => [track.id, track])),
    };
  }

  function restore(session: RtcSession, { state, transport }: ParticipantSnapshot, { headless }: SessionRecord): void {
    if (headless) session.link = { state: "headless", ice: null };
    else membership.awaitResume(session);
    membership.started(session, "replaced");
    if (state !== "connected") return;
    membership.emitChange(session, {
      type: "connected",
      transport: transport.transport ?? "udp",
      remoteAddress: transport.remoteAddress ?? "",
      joinTimeMs: 0,
    });
  }

  return (serverName: string, found: Extract<MediaEvent, { type: "roomsFound" }>): void => {
    const node = nodes.find(serverName);
    if (!node) return;
    for (const room of found.rooms) adoptRoom(serverName, node, room);
    placements.adopted(serverName, found);
    log.info({ serverName, rooms: found.rooms.length }, "signaling: calls resumed after a restart");
  };
}

export type Adopt = ReturnType<typeof createAdoption>;
