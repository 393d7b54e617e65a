import type { LiveRooms } from "../../features/rooms/live-rooms.ts";
import { mergedAttributes } from "../../features/rooms/participant.ts";
import type { RoomPresence } from "../../features/rooms/room.service.ts";
import { ApiError } from "../../protocol/errors.ts";
import { MediaError, type MediaNode } from "../../protocol/media-node.ts";
import type { LiveParticipant, Track } from "../../protocol/room-records.ts";
import type { Membership } from "./membership.ts";
import type { SessionRegistry } from "./rtc-session.ts";
import { connectionState, permissionsAtNode, presentParticipant, type RtcSession } from "./rtc-session.ts";

/** The interface of the REST API to the live rooms. */
export function createLiveRooms(registry: SessionRegistry, membership: Membership): LiveRooms {
  function find(roomId: string, identity: string): RtcSession {
    const session = registry.find(roomId, identity);
    if (!session) throw new ApiError("SVC_PARTICIPANT_NOT_FOUND");
    return session;
  }

  const refOf = (session: RtcSession) => ({ roomId: session.room.id, participantId: session.id });
  const nodeOf = ({ room }: RtcSession): MediaNode => {
    if (!room.placed) throw new ApiError("SVC_RTC_SERVER_UNREACHABLE");
    return room.placed.node;
  };

  return {
    async presence(roomIds) {
      const presence = new Map<string, RoomPresence>();
      const counts = new Map<MediaNode, Promise<Map<string, number> | null>>();
      for (const roomId of roomIds) {
        const placed = registry.room(roomId)?.placed;
        if (!placed) continue;
        const { node, serverName } = placed;
        const count = counts.get(node) ?? participantsByRoom(node);
        counts.set(node, count);
        const known = await count;
        presence.set(roomId, { serverName, participantCount: known && (known.get(roomId) ?? 0) });
      }
      return presence;
    },

    async participants(roomId) {
      const placed = registry.room(roomId)?.placed;
      if (!placed) return [];
      const snapshot = await translateMediaErrors(placed.node.room({ roomId }));
      const participants: LiveParticipant[] = [];
      for (const { participantId, state, tracks, quality } of snapshot?.participants ?? []) {
        const session = registry.session(participantId);
        if (!session) continue;
        participants.push({
          ...presentParticipant(session),
          state: connectionState({ ...session, media: state }),
          tracks,
          quality,
        });
      }
      return participants;
    },

    connected(roomId) {
      const room = registry.room(roomId);
      if (room?.placed?.node.remote?.connected === false) return null;
      return [...(room?.sessions.values() ?? [])].flatMap((session) =>
        connectionState(session) === "CONNECTED" ? [session.identity] : [],
      );
    },

    serverOf: (roomId) => registry.room(roomId)?.placed?.serverName ?? null,
    has: (roomId, identity) => registry.find(roomId, identity) !== undefined,
    roomsOf: ({ projectId, environment }, identity) =>
      registry
        .rooms()
        .filter((room) => room.projectId === projectId && room.environment === environment)
        .flatMap(({ id, sessions }) => (sessions.has(identity) ? [id] : [])),
    permissionsOf: (roomId, identity) => find(roomId, identity).permissions,

    async update(roomId, identity, { permissions, metadata, name, attributes }) {
      const session = find(roomId, identity);
      const merged = attributes && mergedAttributes(session.attributes, attributes);
      if (permissions) {
        const atNode = permissionsAtNode({ ...session, permissions });
        await translateMediaErrors(nodeOf(session).setPermissions({ ...refOf(session), permissions: atNode }));
        session.permissions = permissions;
        membership.push(session, { type: "permissions.changed", permissions });
      }
      if (metadata !== undefined) session.metadata = metadata;
      if (name !== undefined) session.name = name;
      if (merged) session.attributes = merged;
      membership.update(session);
      return presentParticipant(session);
    },

    async mute(roomId, identity, trackId) {
      const session = find(roomId, identity);
      const track: Track | undefined = session.tracks.get(trackId);
      if (!track) throw new ApiError("SVC_TRACK_NOT_FOUND");
      await translateMediaErrors(nodeOf(session).setTrackMuted({ ...refOf(session), trackId, muted: true }));
      return { ...track, muted: true };
    },

    async setNetwork(roomId, identity, profile) {
      // The node keeps the profile of participants who left, so it must be possible to reset it without them.
      const placed = profile === "none" ? registry.room(roomId)?.placed : undefined;
      const node = placed?.node ?? nodeOf(find(roomId, identity));
      await translateMediaErrors(node.setNetwork({ roomId, identity, profile }));
    },

    async sendData(roomId, data) {
      const placed = registry.room(roomId)?.placed;
      if (placed) await translateMediaErrors(placed.node.sendData({ roomId, from: null, ...data }));
    },
  };
}

async function participantsByRoom(node: MediaNode): Promise<Map<string, number> | null> {
  try {
    return new Map((await node.rooms()).map(({ roomId, participants }) => [roomId, participants]));
  } catch (error) {
    if (error instanceof MediaError) return null;
    throw error;
  }
}

async function translateMediaErrors<T>(response: Promise<T>): Promise<T> {
  try {
    return await response;
  } catch (error) {
    if (!(error instanceof MediaError)) throw error;
    switch (error.code) {
      case "TRACK_NOT_FOUND":
        throw new ApiError("SVC_TRACK_NOT_FOUND");
      case "PARTICIPANT_NOT_FOUND":
        throw new ApiError("SVC_PARTICIPANT_NOT_FOUND");
      default:
        throw new ApiError("SVC_RTC_SERVER_UNREACHABLE");
    }
  }
}
