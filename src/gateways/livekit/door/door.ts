import { createHash } from "node:crypto";
import {
  ClientInfo_SDK,
  Codec,
  DisconnectReason,
  JoinResponse,
  LeaveRequest,
  LeaveRequest_Action,
  ReconnectResponse,
  SignalResponse,
} from "@livekit/protocol";
import type { RoomService } from "../../../features/rooms/room.service.ts";
import type { RtcTokenService } from "../../../features/rooms/rtc-token.service.ts";
import type { RtcTokenCaller } from "../../../kernel/http/callers.ts";
import { type OriginPolicy, originAllowed, originRefused } from "../../../kernel/http/origins.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { SocketEvents, TopicSocket } from "../../../kernel/socket/sockets.ts";
import { CLOSE_CODES } from "../../../protocol/close-codes.ts";
import { ApiError } from "../../../protocol/errors.ts";
import { Refusal } from "../../signaling/session/refusal.ts";
import type { RtcSession } from "../../signaling/session/rtc-session.ts";
import type { Translation } from "../../signaling/signaling.ts";
import type { Agents } from "../agents/agents.ts";
import { wantedBy } from "../agents/dispatch.ts";
import { iceServers, roomInfo } from "../records.ts";
import { NO_TOKEN, Refused, refusedBy, TokenRefused } from "../refused.ts";
import { SPOKEN_VERSION, serverInfo } from "../server-info.ts";
import {
  createTokenReader,
  joinOf,
  type LivekitToken,
  permissionsOf,
  profileOf,
  type Signers,
  sourcesOf,
} from "../tokens/claims.ts";
import type { WriteToken } from "../tokens/issued-token.ts";
import { createTokenRefresh } from "../tokens/token-refresh.ts";
import { MAX_FRAME_BYTES, Visitor } from "../visitor/visitor.ts";
import type { Visitors } from "../visitor/visitors.ts";
import { type Arrival, sdkName } from "./join-request.ts";

const PING = { pingInterval: 5, pingTimeout: 15 };
/** What we forward in layers; whoever asks for another codec publishes one of these. */
const PUBLISH_CODECS = ["video/VP8", "video/H264", "audio/opus", "audio/red"];

export type DoorDeps = {
  translation: Translation;
  rooms: RoomService;
  rtcTokens: RtcTokenService;
  apiKeys: Signers;
  originPolicy: (projectId: string) => OriginPolicy;
  visitors: Visitors;
  agents: Agents;
  writeToken: WriteToken;
};

export type Visit = { ipAddress: string; userAgent: string | null; origin: string | null };
/** Whoever may come in: its token was read, and the room is there or may be made. */
export type Admitted = {
  arrival: Arrival;
  visit: Visit;
  token: LivekitToken;
  openedAt: number;
  /** Somebody came into the room with this token before. */
  isBack: boolean;
};

export type Door = ReturnType<typeof createDoor>;

/** Lets LiveKit's clients into our rooms. Behind it nobody knows that they are others. */
export function createDoor(runtime: Runtime, deps: DoorDeps) {
  const { log, now, write } = runtime;
  const { translation, rooms, rtcTokens, apiKeys, originPolicy, visitors, agents, writeToken } = deps;
  const { foreign } = visitors;
  const { membership, join } = translation;
  const readToken = createTokenReader(apiKeys, now);
  const refreshing = createTokenRefresh(runtime, { apiKeys, rtcTokens, writeToken });
  /** Everything that can be told without writing anything down; of a stranger nothing but the token is looked at. */
  async function admit(given: string | null, visit: Visit, readArrival: () => Arrival): Promise<Admitted> {
    const openedAt = now();
    if (given === null) throw new TokenRefused(NO_TOKEN);
    const token = await readToken(given);
    if (!originAllowed(visit.origin, originPolicy(token.key.projectId))) {
      throw new Refused(403, originRefused(visit.origin).message);
    }
    const { roomName } = joinOf(token);
    profileOf(token);
    const room = rooms.findByName(token.key, roomName);
    const known = room && tokenIdIn(room.id, token);
    const isBack = room !== undefined && known !== undefined && rtcTokens.isKnown(known, room.id, token.identity);
    if (isBack && rtcTokens.isRevoked(known)) {
      throw new TokenRefused("the token was revoked, or its holder was removed from the room");
    }
    return { arrival: readArrival(), visit, token, openedAt, isBack };
  }

  /** On record under a name of its own in each room; one that we made in place of another goes on under that one's. */
  function tokenIdIn(roomId: string, { tokenId, hash, identity }: LivekitToken): string {
    if (tokenId !== null && rtcTokens.isKnown(tokenId, roomId, identity)) return tokenId;
    return `lk_${createHash("sha256").update(`${hash} ${roomId}`).digest("hex").slice(0, 40)}`;
  }

  async function callerOf(token: LivekitToken): Promise<RtcTokenCaller> {
    const { roomName, identity } = joinOf(token);
    const { projectId, environment } = token.key;
    const { metadata, profile } = profileOf(token);
    const granted = permissionsOf(token.grant);
    const caller = await write((unit) => {
      const room = rooms.findByName(token.key, roomName) ?? rooms.create(unit, token.key, { name: roomName });
      const tokenId = tokenIdIn(room.id, token);
      const ref = { projectId, environment, roomId: room.id };
      rtcTokens.adopt(unit, ref, { tokenId, participantIdentity: identity, expiresAt: token.expiresAt });
      return { tokenId, roomId: room.id };
    });
    return {
      kind: "rtcToken",
      ...{ ...caller, projectId, environment, metadata, profile },
      participantIdentity: identity,
      permissions: rtcTokens.effectivePermissions(caller.roomId, identity, granted),
      hidden: token.grant.hidden === true,
      expiresAt: token.expiresAt,
    };
  }

  async function enter(admitted: Admitted, isGone: () => boolean): Promise<Visitor> {
    const { arrival, visit, token, openedAt } = admitted;
    const caller = await callerOf(token);
    const { ipAddress, userAgent } = visit;
    const client = { ipAddress, userAgent, sdk: sdkName(arrival.client), openedAt };
    const connectionId = `livekit-${runtime.ids.uuid()}`;
    const forget = agents.expect(caller, wantedBy(token.claims));
    const { session } = await join.join(caller, { connectionId }, client, isGone).finally(forget);
    const visitor = new Visitor({
      ...{ runtime, translation, foreign, session, client: arrival.client, connections: arrival.connections },
      autoSubscribe: arrival.autoSubscribe,
      sources: sourcesOf(token.grant),
      createdAt: rooms.find(caller).createdAt,
    });
    visitors.add(visitor);
    return visitor;
  }

  function welcome(visitor: Visitor, createdAt: number): JoinResponse {
    const { session } = visitor;
    const region = session.room.placed?.region ?? "";
    return new JoinResponse({
      room: roomInfo(session.room, createdAt),
      participant: visitor.telling.self(),
      otherParticipants: visitor.telling.others(),
      serverVersion: SPOKEN_VERSION,
      serverInfo: serverInfo(region),
      serverRegion: region,
      iceServers: iceServers(join.iceServersOf(session)),
      // The client connects what it sends on at once, and its data channels there carry both ways.
      subscriberPrimary: false,
      fastPublish: true,
      enabledPublishCodecs: PUBLISH_CODECS.map((mime) => new Codec({ mime })),
      ...PING,
    });
  }

  /** The visitor that a socket goes on with; null when there is none any more. */
  function resumable({ arrival, token }: Admitted): Visitor | null {
    const visitor = visitors.of(arrival.resumes ?? "");
    const { session } = visitor ?? {};
    if (!visitor || !session || visitor.connections !== arrival.connections) return null;
    const { roomName, identity } = joinOf(token);
    const { projectId, environment } = token.key;
    const { room, link } = session;
    const isSame = room.projectId === projectId && room.environment === environment && room.name === roomName;
    if (!isSame || session.identity !== identity || rtcTokens.isRevoked(session.tokenId)) return null;
    return link.state === "attached" || link.state === "detached" ? visitor : null;
  }

  async function lastSequence({ room, id }: RtcSession): Promise<number> {
    const snapshot = await room.placed?.node.room({ roomId: room.id });
    return snapshot?.participants.find(({ participantId }) => participantId === id)?.lastDataSequence ?? 0;
  }

  /** A socket that was accepted, up to its close. */
  function connect(network: TopicSocket, admitted: Admitted): SocketEvents {
    let isClosed = false;
    let at: { visitor: Visitor; socket: ReturnType<Visitor["attach"]> } | null = null;
    let stopRefreshing = () => {};
    const early: { text: string | null; binary: Buffer | undefined }[] = [];

    function attached(visitor: Visitor, first: Parameters<Visitor["attach"]>[1]): void {
      at = { visitor, socket: visitor.attach(network, first) };
      stopRefreshing = refreshing(admitted.token, visitor);
      for (const { text, binary } of early.splice(0)) visitor.received(at.socket, text, binary);
    }

    function dismiss(error: unknown, reason: DisconnectReason, action: LeaveRequest_Action): void {
      const known = refusedBy(error) ?? (error instanceof Refusal ? error : null);
      if (!known && error !== null) log.error({ err: error }, "a LiveKit client could not join");
      if (isClosed) return;
      const value = new LeaveRequest({ reason, action, canReconnect: action !== LeaveRequest_Action.DISCONNECT });
      network.sendBytes(new SignalResponse({ message: { case: "leave", value } }).toBinary());
      network.close(CLOSE_CODES.restart, known?.message.slice(0, 100) ?? "left");
    }

    async function begin(): Promise<void> {
      const { arrival } = admitted;
      if (!arrival.isReconnect) {
        const visitor = await enter(admitted, () => isClosed);
        if (isClosed) return membership.leave(visitor.session, "left");
        if (admitted.isBack && arrival.client.sdk === ClientInfo_SDK.JS) visitor.settle();
        attached(visitor, {
          case: "join",
          value: welcome(visitor, rooms.byId(visitor.session.room.id)?.createdAt ?? 0),
        });
        for (const value of arrival.tracks) visitor.handle({ case: "addTrack", value });
        if (arrival.offer) visitor.handle({ case: "offer", value: arrival.offer });
        return;
      }
      const visitor = resumable(admitted);
      if (!visitor) return dismiss(null, DisconnectReason.STATE_MISMATCH, LeaveRequest_Action.RECONNECT);
      const lastMessageSeq = await lastSequence(visitor.session);
      if (isClosed || visitor.session.link.state === "left") {
        return dismiss(null, DisconnectReason.STATE_MISMATCH, LeaveRequest_Action.RECONNECT);
      }
      const servers = iceServers(join.iceServersOf(visitor.session));
      const info = serverInfo(visitor.session.room.placed?.region ?? "");
      const value = new ReconnectResponse({ iceServers: servers, serverInfo: info, lastMessageSeq });
      attached(visitor, { case: "reconnect", value });
      membership.tell(visitor.session, { type: "reconnected", path: "signaling" });
      visitor.resume();
    }

    begin().catch((error) => {
      // Whoever is told to disconnect never tries again: not the one that met us while we start, stop or lack a media node.
      const isOurs = (asRefused(error)?.status ?? 500) >= 500;
      const action = isOurs ? LeaveRequest_Action.RECONNECT : LeaveRequest_Action.DISCONNECT;
      dismiss(error, DisconnectReason.JOIN_FAILURE, action);
    });

    return translation.watch(network, {
      received(text, bytes, binary) {
        if (isClosed) return;
        if (bytes > MAX_FRAME_BYTES) return network.close(CLOSE_CODES.frameTooLarge, "frame too large");
        if (at) at.visitor.received(at.socket, text, binary);
        else if (early.length < 32) early.push({ text, binary: binary && Buffer.from(binary) });
      },
      closed() {
        isClosed = true;
        stopRefreshing();
        if (at) membership.detach(at.visitor.session, at.socket);
      },
    });
  }

  return { admit, connect, readToken };
}

/** A refusal of any layer as a status and a sentence; null is unforeseen. */
export function asRefused(error: unknown): Refused | null {
  if (error instanceof Refusal) {
    // Many clients give up for good where the fault is said to be theirs (4xx): while we restart, it is ours.
    const status = error.closeCode === CLOSE_CODES.restart ? 503 : 429;
    return new Refused(status, error.message, error.retryAfterSeconds);
  }
  return error instanceof ApiError || error instanceof Refused ? refusedBy(error) : null;
}
