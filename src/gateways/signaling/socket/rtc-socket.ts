import type { RtcTokenService } from "../../../features/rooms/rtc-token.service.ts";
import { RevokedRtcToken } from "../../../features/rooms/rtc-token.verify.ts";
import type { RtcTokenCaller } from "../../../kernel/http/callers.ts";
import { type OriginPolicy, originAllowed } from "../../../kernel/http/origins.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { errorFrame, FrameError, frameError, frameErrorOf } from "../../../kernel/socket/frame-error.ts";
import { createFrameReader, type FrameAbuse, type FrameDecoder } from "../../../kernel/socket/frame-reader.ts";
import type { Socket, SocketEvents } from "../../../kernel/socket/sockets.ts";
import { CLOSE_CODES, type CloseCode } from "../../../protocol/close-codes.ts";
import {
  type AnswerFrame,
  type ClientFrame,
  type ClientFrameOf,
  JOIN_TIMEOUT_SECONDS,
} from "../../../protocol/signaling.ts";
import type { Join } from "../session/join.ts";
import type { Membership } from "../session/membership.ts";
import { Refusal, refusalOf, refuse } from "../session/refusal.ts";
import type { RtcSession } from "../session/rtc-session.ts";
import type { Requests } from "./requests.ts";

/** Where a socket stands. It only ever moves down this list. */
type Stage =
  | { stage: "authenticating" }
  | { stage: "waiting"; caller: RtcTokenCaller }
  | { stage: "joined"; session: RtcSession }
  | { stage: "closed" };

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
  requests: Requests;
  decode: FrameDecoder<ClientFrame>;
  originPolicy: (projectId: string) => OriginPolicy;
  /** Null: may connect. Otherwise why not: too many attempts, or the server is going down. */
  turnedAway: (ipAddress: string) => Refusal | null;
  /** Whether a token that is over might still resume somebody. */
  isPresent: (roomId: string, identity: string) => boolean;
};

export type RtcSocket = SocketEvents & {
  /** Ends it unless it is in a room, where the room says goodbye. */
  turnAway(refusal: Refusal): void;
};

const ABUSE_CODES: Record<FrameAbuse, CloseCode> = {
  tooLarge: CLOSE_CODES.frameTooLarge,
  tooMany: CLOSE_CODES.tooManyAttempts,
  malformed: CLOSE_CODES.malformed,
};

/** One RTC socket, from its opening to its close. Frames are answered one after another, in the order they came. */
export function openRtcSocket(deps: RtcSocketDeps, socket: Socket, request: SocketRequest): RtcSocket {
  const { runtime, rtcTokens, membership, join, requests } = deps;
  const { bus, config, log, now, timers } = runtime;
  const openedAt = now();
  const read = createFrameReader(deps.decode, {
    now,
    maxBytes: config.SIGNALING_MAX_MESSAGE_BYTES,
    framesPerWindow: config.SIGNALING_MAX_MESSAGES_PER_WINDOW,
    windowSeconds: config.RATE_LIMIT_WINDOW_SECONDS,
  });
  let at: Stage = { stage: "authenticating" };
  let joinFrame: ClientFrameOf<"room.join"> | null = null;
  let tail: Promise<void> = Promise.resolve();

  const isClosed = () => at.stage === "closed";
  const send = (frame: AnswerFrame) => {
    if (!isClosed()) socket.send(JSON.stringify(frame));
  };
  const answerError = (error: FrameError, id?: string) => send(errorFrame(error, id));

  const cancelJoinTimeout = timers.after(JOIN_TIMEOUT_SECONDS * 1000, () => {
    end(new Refusal("JOIN_TIMEOUT", `No room.join within ${JOIN_TIMEOUT_SECONDS} s.`, CLOSE_CODES.joinTimeout));
  });

  function end(refusal: Refusal, id?: string): void {
    if (isClosed()) return;
    const caller = at.stage === "waiting" ? at.caller : null;
    const session = at.stage === "joined" ? at.session : null;
    answerError(refusal, id);
    closed();
    socket.close(refusal.closeCode, refusal.code);
    if (session) return;
    bus.emit("rtcRefused", {
      ...{ code: refusal.code, message: refusal.message, closeCode: refusal.closeCode },
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

  function closed(): void {
    cancelJoinTimeout();
    if (at.stage === "joined") membership.detach(at.session, socket);
    at = { stage: "closed" };
  }

  async function authenticate(): Promise<void> {
    if (request.token === null) throw refuse("SVC_AUTH_ERROR", CLOSE_CODES.unauthorized);
    const caller = await rtcTokens.read(request.token).catch((error) => {
      if (error instanceof RevokedRtcToken && !isClosed()) at = { stage: "waiting", caller: error.caller };
      throw error;
    });
    if (isClosed()) return;
    at = { stage: "waiting", caller };
    if (!originAllowed(request.origin, deps.originPolicy(caller.projectId))) {
      throw refuse("SVC_ORIGIN_NOT_ALLOWED", CLOSE_CODES.forbidden);
    }
    const { roomId, participantIdentity, expiresAt } = caller;
    // One that is over still resumes a session; without a session there is nothing to wait for.
    if (expiresAt <= now() && !deps.isPresent(roomId, participantIdentity)) {
      throw refuse("SVC_TOKEN_EXPIRED", CLOSE_CODES.tokenExpired);
    }
  }

  async function enter(caller: RtcTokenCaller, frame: ClientFrameOf<"room.join">): Promise<void> {
    cancelJoinTimeout();
    joinFrame = frame;
    const resumed = join.resume(caller, frame);
    if (resumed) {
      const lastSeq = frame.resume?.lastSeq ?? 0;
      const missed = resumed.pushes.since(lastSeq);
      at = { stage: "joined", session: resumed };
      membership.attach(resumed, socket);
      send({
        type: "ack",
        id: frame.id,
        ...join.ack(resumed, "resumed", missed ? lastSeq : resumed.pushes.seq),
      });
      for (const text of missed ?? []) socket.send(text);
      membership.tell(resumed, { type: "reconnected", path: "signaling" });
      return;
    }
    const { ipAddress, userAgent } = request;
    const client = { ipAddress, userAgent, sdk: frame.sdk ?? null, openedAt };
    const { session, mode } = await join.join(caller, frame, client, isClosed);
    if (isClosed()) return membership.leave(session, "left");
    at = { stage: "joined", session };
    send({ type: "ack", id: frame.id, ...join.ack(session, mode, session.pushes.seq) });
    membership.attach(session, socket);
  }

  async function answer(frame: ClientFrame): Promise<void> {
    if (isClosed() || frame.type === "ping") return;
    if (frame.type === "room.join") {
      if (at.stage !== "waiting") throw new FrameError("INVALID_MESSAGE", "This socket has joined already.");
      return enter(at.caller, frame).catch((error) => fail(error, frame.id));
    }
    if (at.stage !== "joined") throw new FrameError("NOT_IN_ROOM", "Send room.join first.");
    const { session } = at;
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
    const handle = requests[frame.type] as (session: RtcSession, frame: ClientFrame) => object | Promise<object>;
    send({ type: "ack", id: frame.id, ...(await handle(session, frame)) });
  }

  /** Why a join failed, said before the close. */
  function fail(error: unknown, id?: string): void {
    const refusal = refusalOf(error);
    if (refusal.closeCode === CLOSE_CODES.restart) log.error({ err: error }, "join failed");
    end(refusal, id);
  }

  function enqueue(frame: ClientFrame): void {
    tail = tail
      .then(() => answer(frame))
      .catch((error) => {
        const known = frameErrorOf(error);
        if (!known) log.error({ err: error, type: frame.type }, "signaling request failed");
        answerError(known ?? frameError("SVC_INTERNAL_ERROR"), frame.id);
      });
  }

  const away = deps.turnedAway(request.ipAddress);
  if (away) end(away);
  else tail = authenticate().catch((error) => fail(error));

  return {
    framesPerWindow: config.SIGNALING_MAX_MESSAGES_PER_WINDOW,
    received(text, bytes) {
      if (isClosed()) return;
      const reading = read(text, bytes);
      switch (reading.kind) {
        case "frame":
          // Pings are answered past the queue: they ask whether the server lives, not whether it has time.
          if (reading.frame.type === "ping") send({ type: "pong", id: reading.frame.id });
          else enqueue(reading.frame);
          break;
        case "refused":
          answerError(reading.error, reading.id);
          break;
        case "abuse": {
          const { code, message } = reading.error;
          end(new Refusal(code, message, ABUSE_CODES[reading.abuse]), reading.id);
          break;
        }
      }
    },
    closed,
    turnAway(refusal) {
      if (at.stage !== "joined") end(refusal);
    },
  };
}
