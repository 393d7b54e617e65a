import type { RtcTokenService } from "../../features/rooms/rtc-token.service.ts";
import { RevokedRtcToken } from "../../features/rooms/rtc-token.verify.ts";
import type { RtcTokenCaller } from "../../kernel/http/callers.ts";
import { type OriginPolicy, originAllowed } from "../../kernel/http/origins.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { errorFrame, FrameError, frameError, frameErrorOf } from "../../kernel/socket/frame-error.ts";
import { createFrameReader, type FrameAbuse, type FrameDecoder } from "../../kernel/socket/frame-reader.ts";
import type { Socket, SocketEvents } from "../../kernel/socket/sockets.ts";
import { CLOSE_CODES, type CloseCode } from "../../protocol/close-codes.ts";
import {
  type AnswerFrame,
  type ClientFrame,
  type ClientFrameOf,
  JOIN_TIMEOUT_SECONDS,
} from "../../protocol/signaling.ts";
import type { Join } from "./join.ts";
import type { Lobby } from "./lobby.ts";
import type { Membership } from "./membership.ts";
import { Refusal, refuse, toRefusal } from "./refusal.ts";
import type { Requests } from "./requests.ts";
import type { RtcSession } from "./rtc-session.ts";

/** The states of a socket, which only change in this order. */
type SocketState =
  | { state: "authenticating" }
  | { state: "waiting"; caller: RtcTokenCaller }
  | { state: "joined"; session: RtcSession }
  | { state: "closed" };

export type SocketRequest = {
  token: string | null;
  origin: string | null;
  ipAddress: string;
  userAgent: string | null;
};

export type RtcSocketDeps = {
  runtime: Runtime;
  rtcTokens: RtcTokenService;
  membership: Membership;
  join: Join;
  lobby: Lobby;
  requests: Requests;
  decode: FrameDecoder<ClientFrame>;
  originPolicy: (projectId: string) => OriginPolicy;
  /** Null when the IP address may connect; otherwise it made too many attempts, or the server is stopping. */
  admissionRefusal: (ipAddress: string) => Refusal | null;
  isPresent: (roomId: string, identity: string) => boolean;
};

export type RtcSocket = SocketEvents & {
  /** Closes the socket unless it is in a room, whose participants are dismissed elsewhere. */
  refuse(refusal: Refusal): void;
};

const ABUSE_CODES: Record<FrameAbuse, CloseCode> = {
  tooLarge: CLOSE_CODES.frameTooLarge,
  tooMany: CLOSE_CODES.tooManyAttempts,
  malformed: CLOSE_CODES.malformed,
};

/** How long a client that is admitted from the lobby has to join. */
const JOIN_AFTER_WAIT_MS = 30_000;

/** One RTC socket from open to close. Requests are handled one after another, in order. */
export function openRtcSocket(deps: RtcSocketDeps, socket: Socket, request: SocketRequest): RtcSocket {
  const { runtime, rtcTokens, membership, join, lobby, requests } = deps;
  const { bus, config, log, now, timers } = runtime;
  const openedAt = now();
  const read = createFrameReader(deps.decode, {
    now,
    maxBytes: config.SIGNALING_MAX_MESSAGE_BYTES,
    framesPerWindow: config.SIGNALING_MAX_MESSAGES_PER_WINDOW,
    windowSeconds: config.RATE_LIMIT_WINDOW_SECONDS,
  });
  let current: SocketState = { state: "authenticating" };
  let joinFrame: ClientFrameOf<"room.join"> | null = null;
  let leaveLobby = () => {};
  let tail: Promise<void> = Promise.resolve();

  const isClosed = () => current.state === "closed";
  const send = (frame: AnswerFrame) => {
    if (!isClosed()) socket.send(JSON.stringify(frame));
  };
  const sendError = (error: FrameError, id?: string) => send(errorFrame(error, id));

  const cancelJoinTimeout = timers.after(JOIN_TIMEOUT_SECONDS * 1000, () => {
    end(new Refusal("JOIN_TIMEOUT", `No room.join within ${JOIN_TIMEOUT_SECONDS} s.`, CLOSE_CODES.joinTimeout));
  });

  function end(refusal: Refusal, id?: string): void {
    if (isClosed()) return;
    const caller = current.state === "waiting" ? current.caller : null;
    const session = current.state === "joined" ? current.session : null;
    sendError(refusal, id);
    closed();
    socket.close(refusal.closeCode, refusal.code);
    if (session) return;
    bus.emit("rtcRefused", {
      code: refusal.code,
      message: refusal.message,
      closeCode: refusal.closeCode,
      projectId: caller?.projectId ?? null,
      environment: caller?.environment ?? null,
      roomId: caller?.roomId ?? null,
      participantIdentity: caller?.participantIdentity ?? null,
      tokenId: caller?.tokenId ?? null,
      connectionId: joinFrame?.connectionId ?? null,
      sdk: joinFrame?.sdk ?? null,
      userAgent: request.userAgent,
      ipAddress: request.ipAddress,
      startedAt: openedAt,
      at: now(),
    });
  }

  /** `code` is the client's close code; undefined when the server closes the socket. */
  function closed(code?: number): void {
    cancelJoinTimeout();
    leaveLobby();
    if (current.state === "joined") membership.detach(current.session, socket, code);
    current = { state: "closed" };
  }

  async function authenticate(): Promise<void> {
    if (request.token === null) throw refuse("SVC_AUTH_ERROR", CLOSE_CODES.unauthorized);
    const caller = await rtcTokens.read(request.token).catch((error) => {
      if (error instanceof RevokedRtcToken && !isClosed()) current = { state: "waiting", caller: error.caller };
      throw error;
    });
    if (isClosed()) return;
    current = { state: "waiting", caller };
    if (!originAllowed(request.origin, deps.originPolicy(caller.projectId))) {
      throw refuse("SVC_ORIGIN_NOT_ALLOWED", CLOSE_CODES.forbidden);
    }
    const { roomId, participantIdentity, expiresAt } = caller;
    // An expired token can still resume a session, but not start one.
    if (expiresAt <= now() && !deps.isPresent(roomId, participantIdentity)) {
      throw refuse("SVC_TOKEN_EXPIRED", CLOSE_CODES.tokenExpired);
    }
  }

  async function joinOrResume(caller: RtcTokenCaller, frame: ClientFrameOf<"room.join">): Promise<void> {
    cancelJoinTimeout();
    joinFrame = frame;
    const resumed = join.resume(caller, frame);
    if (resumed) {
      const lastSeq = frame.resume?.lastSeq ?? 0;
      const missed = resumed.pushes.since(lastSeq);
      current = { state: "joined", session: resumed };
      membership.attach(resumed, socket);
      send({
        type: "ack",
        id: frame.id,
        ...join.ack(resumed, "resumed", missed ? lastSeq : resumed.pushes.seq),
      });
      for (const text of missed ?? []) socket.send(text);
      membership.emitChange(resumed, { type: "reconnected", path: "signaling" });
      return;
    }
    const { ipAddress, userAgent } = request;
    const client = { ipAddress, userAgent, sdk: frame.sdk ?? null, openedAt };
    const { session, mode } = await join.join(caller, frame, client, isClosed);
    if (isClosed()) return membership.leave(session, "left");
    current = { state: "joined", session };
    send({ type: "ack", id: frame.id, ...join.ack(session, mode, session.pushes.seq) });
    membership.attach(session, socket);
  }

  async function handle(frame: ClientFrame): Promise<void> {
    if (isClosed() || frame.type === "ping") return;
    if (frame.type === "room.join") {
      if (current.state !== "waiting") throw new FrameError("INVALID_MESSAGE", "This socket has joined already.");
      return joinOrResume(current.caller, frame).catch((error) => refuseJoin(error, frame.id));
    }
    if (current.state !== "joined") throw new FrameError("NOT_IN_ROOM", "Send room.join first.");
    const { session } = current;
    if (session.link.state !== "attached" || session.link.socket !== socket) {
      throw new FrameError("NOT_IN_ROOM", "Another socket has taken over.");
    }
    if (frame.type === "room.leave") {
      send({ type: "ack", id: frame.id });
      membership.leave(session, "left");
      closed();
      socket.close(1000, "left");
      return;
    }
    const request = requests[frame.type] as (session: RtcSession, frame: ClientFrame) => object | Promise<object>;
    send({ type: "ack", id: frame.id, ...(await request(session, frame)) });
  }

  /** The socket stays open, and its client joins again once it is admitted. */
  function waitInLobby({ roomId, participantIdentity }: RtcTokenCaller, refusal: Refusal, id?: string): void {
    sendError(refusal, id);
    leaveLobby = lobby.wait(roomId, participantIdentity, endWait);
  }

  /** The token was valid when the client asked to join. Tokens may be shorter than the wait for a host. */
  function extendToken(): void {
    if (current.state !== "waiting") return;
    const { caller } = current;
    current = { ...current, caller: { ...caller, expiresAt: Math.max(caller.expiresAt, now() + JOIN_AFTER_WAIT_MS) } };
  }

  const endWait: Parameters<Lobby["wait"]>[2] = (outcome) => {
    switch (outcome) {
      case "admitted":
        extendToken();
        return send({ type: "lobby.admitted" });
      case "closed":
        return end(refuse("SVC_ROOM_CLOSED", CLOSE_CODES.roomClosed));
      case "replaced":
        return end(new Refusal("NOT_IN_ROOM", "Another socket has taken over.", CLOSE_CODES.replaced));
      case "revoked":
        return end(refuse("SVC_TOKEN_REVOKED", CLOSE_CODES.unauthorized));
      case "denied":
        return end(new Refusal("LOBBY_DENIED", "No host has let you in.", CLOSE_CODES.forbidden));
    }
  };

  function refuseJoin(error: unknown, id?: string): void {
    const refusal = toRefusal(error);
    if (refusal.code === "IN_LOBBY" && current.state === "waiting") {
      waitInLobby(current.caller, refusal, id);
      return;
    }
    if (refusal.closeCode === CLOSE_CODES.restart) log.error({ err: error }, "signaling: join failed");
    end(refusal, id);
  }

  function enqueue(frame: ClientFrame): void {
    tail = tail
      .then(() => handle(frame))
      .catch((error) => {
        const known = frameErrorOf(error);
        if (!known) log.error({ err: error, type: frame.type }, "signaling: request failed");
        sendError(known ?? frameError("SVC_INTERNAL_ERROR"), frame.id);
      });
  }

  const refusal = deps.admissionRefusal(request.ipAddress);
  if (refusal) end(refusal);
  else tail = authenticate().catch((error) => refuseJoin(error));

  return {
    framesPerWindow: config.SIGNALING_MAX_MESSAGES_PER_WINDOW,
    received(text, bytes) {
      if (isClosed()) return;
      const reading = read(text, bytes);
      switch (reading.kind) {
        case "frame":
          // Pings skip the queue: they check that the server is alive, not that it is idle.
          if (reading.frame.type === "ping") send({ type: "pong", id: reading.frame.id });
          else enqueue(reading.frame);
          break;
        case "refused":
          sendError(reading.error, reading.id);
          break;
        case "abuse": {
          const { code, message } = reading.error;
          end(new Refusal(code, message, ABUSE_CODES[reading.abuse]), reading.id);
          break;
        }
      }
    },
    closed,
    refuse(refusal) {
      if (current.state !== "joined") end(refusal);
    },
  };
}
