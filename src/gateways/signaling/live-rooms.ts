import type { LiveRooms } from "../../features/rooms/live-rooms.ts";
import { mergedAttributes } from "../../features/rooms/participant.ts";
import type { RoomPresence } from "../../features/rooms/room.service.ts";
import { sameTenant } from "../../kernel/tenant.ts";
import type { Placed, Placements } from "../../nodes/placement.ts";
import { ApiError } from "../../protocol/errors.ts";
import { MediaError, type MediaNode } from "../../protocol/media-node.ts";
import type { LiveParticipant, Track } from "../../protocol/room-records.ts";
import type { Lobby } from "./lobby.ts";
import type { Membership } from "./membership.ts";
import type { SessionRegistry } from "./rtc-session.ts";
import { connectionState, permissionsAtNode, presentParticipant, type RtcSession } from "./rtc-session.ts";

/** The interface of the REST API to the live rooms. */
export function createLiveRooms(
  registry: SessionRegistry,
  membership: Membership,
  lobby: Lobby,
  placements: Pick<Placements, "links">,
): LiveRooms {
  function find(roomId: string, identity: string): RtcSession {
    const session = registry.find(roomId, identity);
    if (!session) throw new ApiError("SVC_PARTICIPANT_NOT_FOUND");
    return session;
  }

  const refOf = (session: RtcSession) => ({ roomId: session.room.id, participantId: session.id });
  const sitesOf = (roomId: string): Placed[] => [...(registry.room(roomId)?.sites.values() ?? [])];

  return {
    async presence(roomIds) {
      const presence = new Map<string, RoomPresence>();
      const counts = new Map<MediaNode, Promise<Map<string, number> | null>>();
      for (const roomId of roomIds) {
        const sites: RoomPresence["sites"] = [];
        for (const { node, serverName, region } of sitesOf(roomId)) {
          const count = counts.get(node) ?? participantsByRoom(node);
          counts.set(node, count);
          const known = await count;
          sites.push({ serverName, region, participants: known && (known.get(roomId) ?? 0) });
        }
        if (sites.length > 0) presence.set(roomId, { sites });
      }
      return presence;
    },

    async participants(roomId) {
      const answers = sitesOf(roomId).map(async ({ node }) => ({ node, snapshot: await node.room({ roomId }) }));
      const found = (await translateMediaErrors(Promise.all(answers))).flatMap(({ node, snapshot }) =>
        (snapshot?.participants ?? []).map((participant) => ({ node, ...participant })),
      );
      const participants: LiveParticipant[] = [];
      for (const { node, participantId, state, tracks, quality } of found) {
        const session = registry.session(participantId);
        if (session?.site.node !== node) continue;
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
      if (sitesOf(roomId).some(({ node }) => node.remote?.connected === false)) return null;
      return [...(room?.sessions.values() ?? [])].flatMap((session) =>
        connectionState(session) === "CONNECTED" ? [session.identity] : [],
      );
    },

    linksOf: (roomId) =>
      placements
        .links()
        .flatMap(({ servers, state, rttMs, lossPercent, limitBps, roomIds }) =>
          roomIds.includes(roomId) ? { servers, state, rttMs, lossPercent, limitBps } : [],
        ),
    serversOf: (roomId) => [...(registry.room(roomId)?.sites.keys() ?? [])],
    has: (roomId, identity) => registry.find(roomId, identity) !== undefined,
    roomsOf: (tenant, identity) =>
      registry
        .rooms()
        .filter((room) => sameTenant(room, tenant))
        .flatMap(({ id, sessions }) => (sessions.has(identity) ? [id] : [])),
    permissionsOf: (roomId, identity) => find(roomId, identity).permissions,

    async update(roomId, identity, { permissions, metadata, name, attributes }) {
      const session = find(roomId, identity);
      // Refuses attributes beyond the limits before anything changes.
      if (attributes) mergedAttributes(session.attributes, attributes);
      if (permissions) {
        const atNode = permissionsAtNode({ ...session, permissions });
        await translateMediaErrors(session.site.node.setPermissions({ ...refOf(session), permissions: atNode }));
        session.permissions = permissions;
        membership.push(session, { type: "permissions.changed", permissions });
      }
      if (metadata !== undefined) session.metadata = metadata;
      if (name !== undefined) session.name = name;
      // Another request may have changed attributes while the node was asked.
      if (attributes) session.attributes = mergedAttributes(session.attributes, attributes);
      membership.update(session);
      return presentParticipant(session);
    },

    movable(roomId, identity) {
      const { link, permissions, metadata, name, attributes, kind } = find(roomId, identity);
      if (link.state === "headless") {
        throw new ApiError("SVC_CONFLICT", "A WHIP or WHEP client cannot be moved; connect it to the other room.");
      }
      return { permissions, metadata, name, attributes, kind };
    },

    move: (roomId, identity, to) => membership.move(find(roomId, identity), to),

    waiting: lobby.list,
    admit: lobby.admit,
    deny: lobby.deny,

    async mute(roomId, identity, trackId) {
      const session = find(roomId, identity);
      const track: Track | undefined = session.tracks.get(trackId);
      if (!track) throw new ApiError("SVC_TRACK_NOT_FOUND");
      await translateMediaErrors(session.site.node.setTrackMuted({ ...refOf(session), trackId, muted: true }));
      return { ...track, muted: true };
    },

    async setNetwork(roomId, identity, profile) {
      // The node keeps the profile of participants who left, so it must be possible to reset it without them.
      const everywhere = profile === "none" ? sitesOf(roomId) : [];
      const sites = everywhere.length > 0 ? everywhere : [find(roomId, identity).site];
      await translateMediaErrors(Promise.all(sites.map(({ node }) => node.setNetwork({ roomId, identity, profile }))));
    },

    async sendData(roomId, data) {
      const sent = sitesOf(roomId).map(({ node }) => node.sendData({ roomId, from: null, ...data }));
      await translateMediaErrors(Promise.all(sent));
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
