import { randomBytes } from "node:crypto";
import { ICE_CREDENTIAL_MS, type IceServers } from "../../features/rooms/ice-servers.ts";
import type { RoomService } from "../../features/rooms/room.service.ts";
import type { RtcTokenService } from "../../features/rooms/rtc-token.service.ts";
import { sameSecret } from "../../kernel/crypto/secrets.ts";
import type { RtcTokenCaller } from "../../kernel/http/callers.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Placed, Placements } from "../../nodes/placement.ts";
import { CLOSE_CODES } from "../../protocol/close-codes.ts";
import { PUBLIC_KEY_ATTRIBUTE } from "../../protocol/encryption/key-agreement.ts";
import { ApiError, frameCode } from "../../protocol/errors.ts";
import { MediaError } from "../../protocol/media-node.ts";
import type { IceServer } from "../../protocol/room-records.ts";
import type { ClientFrameOf, JoinAck } from "../../protocol/signaling.ts";
import type { Lobby } from "./lobby.ts";
import { ENDINGS, type Membership, RESUME_WINDOW_SECONDS } from "./membership.ts";
import { Refusal } from "./refusal.ts";
import type { RoomStates } from "./room-state.ts";
import { othersFor, participantCount, rosterFor } from "./rosters.ts";
import {
  type Client,
  createPushes,
  type LiveRoom,
  presentParticipant,
  type RtcSession,
  type SessionRegistry,
  withoutTracks,
} from "./rtc-session.ts";
import { addToNode } from "./session-record.ts";

type JoinFrame = Pick<ClientFrameOf<"room.join">, "connectionId" | "resume" | "roster" | "publicKey">;
type Joined = { session: RtcSession; mode: "new" | "replaced" };

type JoinDeps = {
  registry: SessionRegistry;
  placements: Placements;
  membership: Membership;
  rooms: RoomService;
  rtcTokens: RtcTokenService;
  iceServers: IceServers;
  lobby: Lobby;
  roomStates: RoomStates;
  isWaitingRoom: (roomId: string) => boolean;
  isStreamRoom: (roomId: string) => boolean;
};

/** Joins and resumes participants. A rejected join throws. */
export function createJoin({ config, ids, keyring, now }: Runtime, deps: JoinDeps) {
  const {
    registry,
    placements,
    membership,
    rooms,
    rtcTokens,
    iceServers,
    isWaitingRoom,
    isStreamRoom,
    lobby,
    roomStates,
  } = deps;

  /** The permissions may have changed since the token was minted. */
  const permissionsOf = ({ roomId, participantIdentity, permissions }: RtcTokenCaller) =>
    rtcTokens.effectivePermissions(roomId, participantIdentity, permissions);

  function admit(caller: RtcTokenCaller) {
    if (rtcTokens.isRevoked(caller.tokenId)) throw new ApiError("SVC_TOKEN_REVOKED");
    if (caller.expiresAt <= now()) throw new ApiError("SVC_TOKEN_EXPIRED");
    const permissions = permissionsOf(caller);
    if (!permissions.join) throw new ApiError("SVC_PERMISSION_DENIED");
    const row = rooms.findActive(caller);
    lobby.check(caller, row, permissions);
    return row;
  }

  /** The maximum number of participants of a room: its own limit, up to the server's. */
  const capacityOf = (roomId: string): number =>
    Math.min(
      rooms.byId(roomId)?.maxParticipants ?? Infinity,
      isStreamRoom(roomId) ? config.LIVE_STREAM_MAX_PARTICIPANTS : config.SIGNALING_MAX_PARTICIPANTS_PER_ROOM,
    );

  function create(caller: RtcTokenCaller, room: LiveRoom, site: Placed, frame: JoinFrame, client: Client): Joined {
    const previous = room.sessions.get(caller.participantIdentity);
    const capacity = capacityOf(room.id);
    if (!previous && room.sessions.size >= capacity) {
      const message = `The room is full: it takes at most ${capacity} participant${capacity === 1 ? "" : "s"}.`;
      throw new Refusal("ROOM_FULL", message, CLOSE_CODES.roomFull);
    }
    // The same client repeats a join whose response it did not receive; other participants are not notified.
    const earlier = previous?.connectionId === frame.connectionId ? previous : undefined;
    const permissions = permissionsOf(caller);
    const session: RtcSession = {
      id: ids.uuid(),
      room,
      site,
      identity: caller.participantIdentity,
      connectionId: frame.connectionId,
      tokenId: caller.tokenId,
      client,
      joinedAt: earlier?.joinedAt ?? now(),
      pushes: createPushes(),
      link: { state: "joining" },
      resumeToken: newResumeToken(),
      permissions,
      metadata: caller.metadata,
      ...caller.profile,
      attributes: { ...caller.profile.attributes, ...(frame.publicKey && { [PUBLIC_KEY_ATTRIBUTE]: frame.publicKey }) },
      hidden: caller.hidden ?? false,
      moved: false,
      waiting: !permissions.publish && isWaitingRoom(room.id),
      roster: rosterFor(
        frame.roster,
        room.sessions.size + (previous ? 0 : 1),
        !permissions.publish && isStreamRoom(room.id),
      ),
      order: 0,
      announced: earlier?.announced ?? false,
      listed: earlier?.listed ?? false,
      publishes: false,
      cancelAnnouncement: () => {},
      wantsMedia: false,
      media: "new",
      stats: null,
      tracks: new Map(),
    };
    if (previous) membership.dismiss(previous, "replaced", { quietly: earlier !== undefined });
    registry.add(session);
    for (const trackId of earlier?.tracks.keys() ?? []) {
      membership.broadcast(room, { type: "track.unpublished", identity: session.identity, trackId }, (other) => {
        return other !== session;
      });
    }
    return { session, mode: previous ? "replaced" : "new" };
  }

  async function enterNode(session: RtcSession): Promise<void> {
    try {
      await addToNode(keyring, session);
    } catch (error) {
      if (!(error instanceof MediaError) || error.code !== "ROOM_NOT_FOUND") throw error;
      // The node restarted since the room was opened there.
      await session.site.node.openRoom({ roomId: session.room.id });
      await addToNode(keyring, session);
    }
  }

  const iceServersOf = ({ id, identity }: Pick<RtcSession, "id" | "identity">): IceServer[] =>
    iceServers({ id, identity }, now() + ICE_CREDENTIAL_MS);

  return {
    /** `isGone` tells whether the client disconnected during the join. */
    async join(caller: RtcTokenCaller, frame: JoinFrame, client: Client, isGone: () => boolean): Promise<Joined> {
      const room = registry.roomFor(admit(caller));
      room.pending += 1;
      let session: RtcSession | undefined;
      try {
        const site = await placements.place(room, caller.region ?? null);
        // The placement took time, so the checks are repeated; nothing is awaited from here to the insertion.
        if (isGone()) throw new Refusal("JOIN_TIMEOUT", "The client hung up.", CLOSE_CODES.joinTimeout);
        admit(caller);
        const joined = create(caller, room, site, frame, client);
        session = joined.session;
        await enterNode(session);
        refuseIfEnded(session);
        // A client that disconnects before the end of its join starts neither a call nor a recording.
        if (isGone()) throw new Refusal("JOIN_TIMEOUT", "The client hung up.", CLOSE_CODES.joinTimeout);
        membership.awaitAnnouncement(session);
        membership.started(session, joined.mode);
        return joined;
      } catch (error) {
        if (session) membership.leave(session, isGone() ? "left" : "failed");
        throw error;
      } finally {
        room.pending -= 1;
        membership.releaseIfEmpty(room);
      }
    },

    /** Null when there is no session to resume; the client may then join, if its token is still valid. */
    resume(caller: RtcTokenCaller, { connectionId, resume }: JoinFrame): RtcSession | null {
      const session = resume && registry.session(resume.sessionId);
      if (!session || session.connectionId !== connectionId) return null;
      if (session.room.id !== caller.roomId || session.identity !== caller.participantIdentity) return null;
      if (session.link.state !== "detached" && session.link.state !== "attached") return null;
      if (session.resumeToken === "" || !sameSecret(resume.resumeToken, session.resumeToken)) return null;
      session.resumeToken = newResumeToken();
      membership.saveToNode(session);
      return session;
    },

    iceServersOf,

    /**
     * The participants are the current ones. A resuming client whose `lastSeq` equals `seq` gets the pushes it missed after
     * this; with a later `seq` this snapshot replaces them.
     */
    ack(session: RtcSession, mode: JoinAck["mode"], seq: number): JoinAck {
      const { room } = session;
      const participants = othersFor(session).map(presentParticipant);
      return {
        mode,
        sessionId: session.id,
        resumeToken: session.resumeToken,
        resumeWindowSeconds: RESUME_WINDOW_SECONDS,
        seq,
        room: { id: room.id, name: room.name, recording: room.recording, encrypted: room.encrypted },
        state: roomStates.of(room),
        lobby: lobby.visibleTo(session),
        participant: presentParticipant(session),
        roster: session.roster,
        participants: session.waiting ? participants.map(withoutTracks) : participants,
        participantCount: participantCount(room, session),
        serverName: session.site.serverName,
        region: session.site.region,
        iceServers: iceServersOf(session),
        permissions: session.permissions,
        limits: {
          maxMessageBytes: config.SIGNALING_MAX_MESSAGE_BYTES,
          messagesPerWindow: config.SIGNALING_MAX_MESSAGES_PER_WINDOW,
          windowSeconds: config.RATE_LIMIT_WINDOW_SECONDS,
          maxParticipants: capacityOf(room.id),
        },
      };
    },
  };
}

export type Join = ReturnType<typeof createJoin>;

/** The participant may have been removed or replaced, or the room closed, during the request to the node. */
function refuseIfEnded({ link }: RtcSession): void {
  if (link.state !== "left" || link.reason === "left" || link.reason === "timeout" || link.reason === "failed") return;
  const { closeCode } = ENDINGS[link.reason];
  throw new Refusal(frameCode("SVC_ROOM_CLOSED"), `The join was overtaken: ${link.reason}.`, closeCode);
}

/** Every join and resume returns a new token, which can be used once. */
function newResumeToken(): string {
  return randomBytes(32).toString("base64url");
}
