import { createHash } from "node:crypto";
import {
  ClientConfigSetting,
  ClientInfo,
  ClientInfo_SDK,
  Codec,
  DisconnectReason,
  JoinResponse,
  LeaveRequest,
  LeaveRequest_Action,
  ReconnectResponse,
  SignalResponse,
} from "@livekit/protocol";
import type { RoomService } from "../../features/rooms/room.service.ts";
import type { RtcTokenService } from "../../features/rooms/rtc-token.service.ts";
import type { RtcTokenCaller } from "../../kernel/http/callers.ts";
import { type OriginPolicy, originAllowed, originRefused } from "../../kernel/http/origins.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { SocketEvents, TopicSocket } from "../../kernel/socket/sockets.ts";
import { sameTenant } from "../../kernel/tenant.ts";
import { CLOSE_CODES } from "../../protocol/close-codes.ts";
import { ApiError } from "../../protocol/errors.ts";
import { foreignName } from "../../protocol/ids.ts";
import { Refusal } from "../signaling/refusal.ts";
import type { RtcSession } from "../signaling/rtc-session.ts";
import type { SignalingCore } from "../signaling/signaling.ts";
import type { Agents } from "./agents/agents.ts";
import { dispatchesInToken } from "./agents/dispatch.ts";
import { type ForcedTransport, ForcedTransports, overTls } from "./forced-transports.ts";
import { type JoinParameters, sdkName } from "./join-request.ts";
import type { LivekitSessions } from "./livekit-session.ts";
import { LivekitSession, type LivekitState, MAX_FRAME_BYTES } from "./livekit-session.ts";
import { iceServers, LIVEKIT_VERSION, roomInfo, serverInfo } from "./records.ts";
import { HttpRefusal, httpRefusalOf, NO_TOKEN, TokenRefused } from "./refusals.ts";
import { configurationOf, roomOptionsOf } from "./room-options.ts";
import type { SignToken } from "./tokens.ts";
import {
  claimsFor,
  createTokenReader,
  createTokenRefresh,
  EXISTING_ROOM_CLAIM,
  joinTarget,
  type LivekitToken,
  permissionsOf,
  profileOf,
  type SigningKeys,
} from "./tokens.ts";

const PING = { pingInterval: 5, pingTimeout: 15 };
/** A client that requests an unsupported codec publishes in one of these. */
const PUBLISH_CODECS = ["video/VP8", "video/H264", "video/VP9", "video/AV1", "audio/opus", "audio/red"];

/** A client that is told to leave closes its socket itself: in Firefox, livekit-client misses a message before an immediate close. */
const CLOSES_MS = 3_000;

/**
 * Clients wait for the answer to their join before they send more. What they send earlier is kept up to this number, and together up
 * to the size of one frame: a participant may have many sockets open.
 */
const MAX_EARLY_FRAMES = 32;

/** How long a client that was moved may take to join the other room. */
const MOVED_MS = 10 * 60_000;

export type ConnectionDeps = {
  signaling: SignalingCore;
  rooms: RoomService;
  rtcTokens: RtcTokenService;
  apiKeys: SigningKeys;
  originPolicy: (projectId: string) => OriginPolicy;
  sessions: LivekitSessions;
  agents: Agents;
  signToken: SignToken;
};

export type ClientRequest = { ipAddress: string; userAgent: string | null; origin: string | null };
/** A client with a valid token, whose room exists or may be created. */
type AdmittedClient = {
  parameters: JoinParameters;
  request: ClientRequest;
  token: LivekitToken;
  openedAt: number;
  isReturning: boolean;
};

/** The room and the identity for which a token is signed. */
type Target = ReturnType<typeof joinTarget>;

export type LivekitConnections = ReturnType<typeof createLivekitConnections>;

/** Admits LiveKit's clients and connects them to rooms, in which they are ordinary participants. */
export function createLivekitConnections(runtime: Runtime, deps: ConnectionDeps) {
  const { log, now, write, timers } = runtime;
  const { signaling, rooms, rtcTokens, apiKeys, originPolicy, sessions, agents, signToken } = deps;
  const { details } = sessions;
  const { membership, join } = signaling;
  const forcedTransports = new ForcedTransports(now);
  const readToken = createTokenReader(apiKeys, now);
  const refreshTokens = createTokenRefresh(runtime, { apiKeys, rtcTokens, signToken });

  /** Makes all checks that do not write. Until the token is verified, nothing else of the request is parsed. */
  async function admit(
    signed: string | null,
    request: ClientRequest,
    readParameters: () => JoinParameters,
  ): Promise<AdmittedClient> {
    const openedAt = now();
    if (signed === null) throw new TokenRefused(NO_TOKEN);
    const token = await readToken(signed);
    if (!originAllowed(request.origin, originPolicy(token.key.projectId))) {
      throw new HttpRefusal(403, originRefused(request.origin).message);
    }
    const target = joinTarget(token);
    profileOf(token);
    if (token.claims[EXISTING_ROOM_CLAIM] === true && !rooms.findByName(token.key, target.roomName)) throw noSuchRoom();
    const isReturning = requireNotRevoked(token, target);
    return { parameters: readParameters(), request, token, openedAt, isReturning };
  }

  const noSuchRoom = () => new HttpRefusal(404, "the room does not exist, and this token may not create it");
  const revoked = () => new TokenRefused("the token was revoked, or its holder was removed from the room");

  function requireValidSigning({ key, signedAt }: LivekitToken, target: Target): void {
    const { projectId, environment } = key;
    if (rtcTokens.isVoid({ projectId, environment, ...target }, signedAt)) throw revoked();
  }

  /** Returns whether the token was used before. */
  function requireNotRevoked(token: LivekitToken, target: Target): boolean {
    const room = rooms.findByName(token.key, target.roomName);
    const tokenId = room ? tokenIdIn(room.id, token, target) : "";
    const isKnown = room !== undefined && rtcTokens.isKnown(tokenId, room.id, target.identity);
    if (isKnown && rtcTokens.isRevoked(tokenId)) throw revoked();
    requireValidSigning(token, target);
    return isKnown;
  }

  /**
   * The check for requests to the server API, most of whose tokens name no participant. A participant's own token may contain grants
   * for it, such as `roomAdmin`, which end with the removal of the participant.
   */
  function requireNotRemoved(token: LivekitToken): void {
    const [roomName, identity] = [foreignName(token.grant.room), foreignName(token.identity)];
    if (roomName !== null && identity !== null) requireNotRevoked(token, { roomName, identity });
  }

  /** Each token has an id per room. A refreshed token keeps the id of the token that it replaces. */
  function tokenIdIn(roomId: string, { tokenId, hash }: LivekitToken, { identity }: Target): string {
    if (tokenId !== null && rtcTokens.isKnown(tokenId, roomId, identity)) return tokenId;
    return `lk_${createHash("sha256").update(`${hash} ${roomId}`).digest("hex").slice(0, 40)}`;
  }

  async function callerOf(token: LivekitToken): Promise<RtcTokenCaller> {
    const target = joinTarget(token);
    const { roomName, identity } = target;
    const { projectId, environment } = token.key;
    const { metadata, profile } = profileOf(token);
    const granted = permissionsOf(token.grant);
    const caller = await write((unit) => {
      // A removal may have been written since the client was admitted.
      requireValidSigning(token, target);
      const existing = rooms.findByName(token.key, roomName);
      if (!existing && token.claims[EXISTING_ROOM_CLAIM] === true) throw noSuchRoom();
      const room =
        existing ?? rooms.create(unit, token.key, { name: roomName, ...roomOptionsOf(configurationOf(token.claims)) });
      const tokenId = tokenIdIn(room.id, token, target);
      const ref = { projectId, environment, roomId: room.id };
      rtcTokens.adopt(unit, ref, { tokenId, participantIdentity: identity, expiresAt: token.expiresAt });
      return { tokenId, roomId: room.id };
    });
    return {
      kind: "rtcToken",
      ...caller,
      projectId,
      environment,
      metadata,
      profile,
      participantIdentity: identity,
      permissions: rtcTokens.effectivePermissions(caller.roomId, identity, granted),
      hidden: token.grant.hidden === true,
      expiresAt: token.expiresAt,
    };
  }

  async function joinRoom(admitted: AdmittedClient, isGone: () => boolean): Promise<LivekitSession> {
    const { parameters, request, token, openedAt } = admitted;
    const caller = await callerOf(token);
    const { ipAddress, userAgent } = request;
    const client = { ipAddress, userAgent, sdk: sdkName(parameters.client), openedAt };
    const connectionId = `livekit-${runtime.ids.uuid()}`;
    const forgetDispatches = agents.expect(caller, dispatchesInToken(token.claims));
    const { session } = await join.join(caller, { connectionId }, client, isGone).finally(forgetDispatches);
    const { client: info, mode, autoSubscribe } = parameters;
    const isRecorder = token.grant.recorder === true;
    const forcedTransport = forcedTransports.take(session.room.id, session.identity);
    return addSession(session, { client: info, mode, autoSubscribe, isRecorder, forcedTransport }, token);
  }

  type Chosen = Pick<JoinParameters, "client" | "mode" | "autoSubscribe"> & {
    isRecorder: boolean;
    forcedTransport: ForcedTransport | null;
  };

  /** The token belongs to the client's newest socket; null until a client resumes the session of an earlier process. */
  function addSession(session: RtcSession, chosen: Chosen, token: LivekitToken | null, before?: LivekitState) {
    const added = new LivekitSession({
      runtime,
      signaling,
      details,
      session,
      ...chosen,
      row: rooms.byId,
      sessionOf: sessions.of,
      token,
      tokenFor: (held, roomName) => signTokenFor(held, session, roomName),
      forceTransport: (protocol) => forcedTransports.ask(session.room.id, session.identity, protocol),
      ...(before && { before }),
    });
    sessions.add(added);
    return added;
  }

  signaling.onAdopted((adopted) => {
    const added = adopted.flatMap(({ session, gateway }) => {
      const before = gateway as LivekitState;
      try {
        const chosen = { ...before, client: ClientInfo.fromJson(before.client), forcedTransport: null };
        return [addSession(session, chosen, null, before)];
      } catch (err) {
        // The session cannot be continued, so the client joins again.
        log.warn({ err, roomId: session.room.id }, "livekit: session of another version not continued");
        return [];
      }
    });
    // Until it resumes, a client is assumed to know the other participants as they are now.
    for (const { notifier } of added) notifier.others();
  });

  function signTokenFor(token: LivekitToken, session: RtcSession, room: string): Promise<string> {
    const { key, claims, identity, expiresAt } = token;
    return signToken(key.publicId, identity, claimsFor(room, claims, session), Math.max(expiresAt, now() + MOVED_MS));
  }

  function joinResponse(client: LivekitSession): JoinResponse {
    const { session } = client;
    const { region } = session.site;
    const row = rooms.byId(session.room.id);
    const servers = iceServers(join.iceServersOf(session));
    const isTls = client.forcedTransport === "tls" && overTls(servers).length > 0;
    return new JoinResponse({
      ...(row && { room: roomInfo(row, session.room, details) }),
      participant: client.notifier.self(),
      otherParticipants: client.notifier.others(),
      serverVersion: LIVEKIT_VERSION,
      serverInfo: serverInfo(region),
      serverRegion: region,
      iceServers: isTls ? overTls(servers) : servers,
      ...(isTls && { clientConfiguration: { forceRelay: ClientConfigSetting.ENABLED } }),
      // The client opens its sending connection at once, and its data channels carry both directions.
      subscriberPrimary: false,
      fastPublish: true,
      enabledPublishCodecs: PUBLISH_CODECS.map((mime) => new Codec({ mime })),
      ...PING,
    });
  }

  /** The session that a reconnecting client resumes; null when it has ended. */
  function resumable({ parameters, token }: AdmittedClient): LivekitSession | null {
    const client = sessions.of(parameters.resumedSessionId ?? "");
    const { session } = client ?? {};
    if (!client || !session || client.mode !== parameters.mode) return null;
    const { roomName, identity } = joinTarget(token);
    const { room, link } = session;
    const isSame = sameTenant(room, token.key) && room.name === roomName;
    if (!isSame || session.identity !== identity || rtcTokens.isRevoked(session.tokenId)) return null;
    return link.state === "attached" || link.state === "detached" ? client : null;
  }

  async function lastSequence({ room, site, id }: RtcSession): Promise<number> {
    const snapshot = await site.node.room({ roomId: room.id });
    return snapshot?.participants.find(({ participantId }) => participantId === id)?.lastDataSequence ?? 0;
  }

  function connect(network: TopicSocket, admitted: AdmittedClient): SocketEvents {
    let isClosed = false;
    let current: { client: LivekitSession; socket: ReturnType<LivekitSession["attach"]> } | null = null;
    let stopRefreshing = () => {};
    let stopClosing = () => {};
    const early: { text: string | null; binary: Buffer | undefined }[] = [];
    let earlyBytes = 0;

    function attached(client: LivekitSession, first: Parameters<LivekitSession["attach"]>[1]): void {
      current = { client, socket: client.attach(network, first) };
      stopRefreshing = refreshTokens(admitted.token, client);
      for (const { text, binary } of early.splice(0)) client.received(current.socket, text, binary);
    }

    function dismiss(error: unknown, reason: DisconnectReason, action: LeaveRequest_Action): void {
      const known = httpRefusalOf(error) ?? (error instanceof Refusal ? error : null);
      if (!known && error !== null) log.error({ err: error }, "livekit: join failed");
      if (isClosed) return;
      const value = new LeaveRequest({ reason, action, canReconnect: action !== LeaveRequest_Action.DISCONNECT });
      network.sendBytes(new SignalResponse({ message: { case: "leave", value } }).toBinary());
      const told = known?.message.slice(0, 100) ?? "left";
      stopClosing = timers.after(CLOSES_MS, () => network.close(CLOSE_CODES.restart, told));
    }

    async function begin(): Promise<void> {
      const { parameters } = admitted;
      if (!parameters.isReconnect) {
        const client = await joinRoom(admitted, () => isClosed);
        if (isClosed) return membership.leave(client.session, "left");
        if (admitted.isReturning && parameters.client.sdk === ClientInfo_SDK.JS) client.deferChanges();
        attached(client, { case: "join", value: joinResponse(client) });
        for (const value of parameters.tracks) client.handle({ case: "addTrack", value });
        if (parameters.offer) client.handle({ case: "offer", value: parameters.offer });
        return;
      }
      const client = resumable(admitted);
      if (!client) return dismiss(null, DisconnectReason.STATE_MISMATCH, LeaveRequest_Action.RECONNECT);
      const lastMessageSeq = await lastSequence(client.session);
      client.token = admitted.token;
      if (isClosed || client.session.link.state === "left") {
        return dismiss(null, DisconnectReason.STATE_MISMATCH, LeaveRequest_Action.RECONNECT);
      }
      const servers = iceServers(join.iceServersOf(client.session));
      const info = serverInfo(client.session.site.region);
      const value = new ReconnectResponse({ iceServers: servers, serverInfo: info, lastMessageSeq });
      attached(client, { case: "reconnect", value });
      membership.emitChange(client.session, { type: "reconnected", path: "signaling" });
      client.resume();
    }

    begin().catch((error) => {
      // A client that is told to disconnect never retries, so it is not told to after an error of the server.
      const isServerFault = (toHttpRefusal(error)?.status ?? 500) >= 500;
      const action = isServerFault ? LeaveRequest_Action.RECONNECT : LeaveRequest_Action.DISCONNECT;
      dismiss(error, DisconnectReason.JOIN_FAILURE, action);
    });

    return signaling.watch(network, {
      received(text, bytes, binary) {
        if (isClosed) return;
        if (bytes > MAX_FRAME_BYTES) return network.close(CLOSE_CODES.frameTooLarge, "frame too large");
        if (current) current.client.received(current.socket, text, binary);
        else if (early.length < MAX_EARLY_FRAMES && earlyBytes + bytes <= MAX_FRAME_BYTES) {
          early.push({ text, binary: binary && Buffer.from(binary) });
          earlyBytes += bytes;
        }
      },
      closed(code) {
        isClosed = true;
        stopRefreshing();
        stopClosing();
        if (current) membership.detach(current.client.session, current.socket, code);
      },
    });
  }

  return { admit, connect, readToken, requireNotRemoved, callerOf };
}

/** Null for an unexpected error. */
export function toHttpRefusal(error: unknown): HttpRefusal | null {
  if (error instanceof Refusal) {
    // Many clients never retry after a 4xx status, so a restart is answered with 503.
    const status =
      error.closeCode === CLOSE_CODES.restart ? 503 : error.closeCode === CLOSE_CODES.forbidden ? 403 : 429;
    return new HttpRefusal(status, error.message, error.retryAfterSeconds);
  }
  return error instanceof ApiError || error instanceof HttpRefusal ? httpRefusalOf(error) : null;
}
