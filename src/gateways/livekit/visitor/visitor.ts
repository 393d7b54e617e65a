import { type ClientInfo, Pong, RequestResponse, RequestResponse_Reason, SignalResponse } from "@livekit/protocol";
import type { Runtime } from "../../../kernel/runtime.ts";
import { FrameError, frameErrorOf } from "../../../kernel/socket/frame-error.ts";
import { createFrameBudget } from "../../../kernel/socket/frame-reader.ts";
import type { Socket, TopicSocket } from "../../../kernel/socket/sockets.ts";
import { CLOSE_CODES, type CloseCode } from "../../../protocol/close-codes.ts";
import { ApiError } from "../../../protocol/errors.ts";
import type { MediaNode } from "../../../protocol/media-node.ts";
import type { TrackSource } from "../../../protocol/room-records.ts";
import { type Push, SDP_MAX_BYTES } from "../../../protocol/signaling.ts";
import type { RtcSession } from "../../signaling/session/rtc-session.ts";
import type { Translation } from "../../signaling/signaling.ts";
import type { Message, Negotiator } from "../connections/negotiator.ts";
import { oneConnection } from "../connections/one-connection.ts";
import { twoConnections } from "../connections/two-connections.ts";
import type { Connections } from "../door/join-request.ts";
import type { Foreign } from "../records.ts";
import { createAnswering } from "./answering.ts";
import { Publishing } from "./publishing.ts";
import { Selection } from "./selection.ts";
import { named, type Request, readRequest } from "./signal-request.ts";
import { Telling } from "./telling.ts";

/** A description of a full room, and a little for what is around it; these clients do not deflate. */
export const MAX_FRAME_BYTES = SDP_MAX_BYTES + 16_384;
/** These clients tell of each change by itself where ours tell of many at once. */
const FRAMES_PER_OURS = 5;
/** A frame counts as many as it takes of ours: reading one of 140 KB of nothing but empty parts takes 50 ms. */
const BYTES_PER_FRAME = 16_384;
/** LiveKit's own client for browsers takes two seconds to come back, however soon it is connected. */
const SETTLES_AFTER_MS = 2_500;

type VisitorDeps = {
  runtime: Runtime;
  translation: Translation;
  foreign: Foreign;
  session: RtcSession;
  client: ClientInfo;
  connections: Connections;
  autoSubscribe: boolean;
  sources: ReadonlySet<TrackSource> | null;
  /** When its room was made. */
  createdAt: number;
};

/** One of LiveKit's clients in a room: its socket speaks protobuf, and the room takes it for one of ours. */
export class Visitor {
  readonly session: RtcSession;
  readonly client: ClientInfo;
  readonly connections: Connections;
  readonly telling: Telling;
  readonly publishing: Publishing;
  readonly #deps: VisitorDeps;
  readonly #selection: Selection;
  readonly #negotiator: Negotiator;
  readonly #answer: (request: Request) => Promise<void>;
  readonly #spend: ReturnType<typeof createFrameBudget>;
  readonly #spendOnLife: ReturnType<typeof createFrameBudget>;
  #link: { network: TopicSocket; socket: Socket } | null = null;
  #tail: Promise<void> = Promise.resolve();
  #cancelSettling: (() => void) | null = null;

  constructor(deps: VisitorDeps) {
    const { runtime, session, sources, foreign, createdAt } = deps;
    this.#deps = deps;
    this.session = session;
    this.client = deps.client;
    this.connections = deps.connections;
    const send = (message: Message) => this.send(message);
    this.publishing = new Publishing(session, sources);
    this.#selection = new Selection(session, deps.autoSubscribe);
    this.telling = new Telling({ session, publishing: this.publishing, foreign, createdAt, send });
    const negotiate = deps.connections === "one" ? oneConnection : twoConnections;
    this.#negotiator = negotiate({
      ...{ session, send, publishing: this.publishing, selection: this.#selection },
      node: () => this.#node(),
    });
    this.#answer = createAnswering({
      ...{ session, send, publishing: this.publishing, selection: this.#selection, telling: this.telling },
      negotiator: this.#negotiator,
      requests: deps.translation.requests,
      node: () => this.#node(),
      refuse: (request, reason, message) => this.refuse(request, reason, message),
      leave: () => this.#leave(),
    });
    const { SIGNALING_MAX_MESSAGES_PER_WINDOW: frames, RATE_LIMIT_WINDOW_SECONDS: seconds } = runtime.config;
    this.#spend = createFrameBudget(runtime.now, frames * FRAMES_PER_OURS, seconds);
    this.#spendOnLife = createFrameBudget(runtime.now, frames * FRAMES_PER_OURS, seconds);
  }

  /** From here on this socket is the client's; the first frame is sent before the room can say anything. */
  attach(network: TopicSocket, first: Message): Socket {
    const socket: Socket = {
      send: (text) => {
        if (this.#link?.socket === socket) this.#push(JSON.parse(text) as Push);
      },
      close: (code, reason) => network.close(code, reason),
      get bufferedBytes() {
        return network.bufferedBytes;
      },
    };
    this.#link = { network, socket };
    this.send(first);
    this.#deps.translation.membership.attach(this.session, socket);
    return socket;
  }

  /**
   * The room stays as it is told in its welcome until this client is able to hear of changes: a browser's client that comes
   * in anew by itself says that it is back as soon as it is connected and publishes, keeps what happens from then until its
   * two seconds are over, and never tells its application of it. Whoever came then was never shown.
   */
  settle(): void {
    this.telling.hold();
    this.#selection.hold();
    this.#cancelSettling = this.#deps.runtime.timers.after(SETTLES_AFTER_MS, () => {
      if (this.session.link.state === "left") return;
      this.#settled();
      this.#enqueue(() => this.#negotiator.changed());
    });
  }

  #settled(): void {
    this.#cancelSettling?.();
    this.#cancelSettling = null;
    this.#selection.release();
    this.telling.release();
  }

  /** Tells what it missed, and goes on with its connections. */
  resume(): void {
    this.#settled();
    this.#enqueue(() => this.#negotiator.resumed());
  }

  send(message: Message): void {
    this.#link?.network.sendBytes(new SignalResponse({ message }).toBinary());
  }

  received(socket: Socket, text: string | null, binary: Buffer | undefined): void {
    if (this.#link?.socket !== socket) return;
    const request = readRequest(text, binary);
    if (!request) {
      this.#end(CLOSE_CODES.malformed, "malformed");
      return;
    }
    const cost = Math.max(1, Math.ceil((binary?.length ?? text?.length ?? 0) / BYTES_PER_FRAME));
    // Past the queue, and with a budget of their own: they ask whether the server lives, or say what it does not need.
    if (request.case === "pingReq" || request.case === "ping" || request.case === "trickle") {
      if (this.#spendOnLife(cost).kind === "flood") this.#end(CLOSE_CODES.tooManyAttempts, "too many frames");
      else this.#pong(request);
      return;
    }
    const verdict = this.#spend(cost);
    if (verdict.kind === "flood") {
      this.#end(CLOSE_CODES.tooManyAttempts, "too many frames");
      return;
    }
    if (verdict.kind === "over") {
      this.refuse(request, RequestResponse_Reason.LIMIT_EXCEEDED, "too many requests; try again later");
      return;
    }
    this.#enqueue(() => this.#answer(request), request);
  }

  /** A client that does not keep to the protocol: it is told to go, and has left when its time to come back is over. */
  #end(code: CloseCode, reason: string): void {
    this.telling.bye("failed", "stop");
    this.#link?.network.close(code, reason);
  }

  #leave(): void {
    this.#deps.translation.membership.leave(this.session, "left");
    this.#link?.network.close(1000, "left");
    this.#link = null;
  }

  handle(request: Request): void {
    this.#enqueue(() => this.#answer(request), request);
  }

  refuse(request: Request, reason: RequestResponse_Reason, message: string): void {
    const value = new RequestResponse({ reason, message, ...named(request) });
    this.send({ case: "requestResponse", value });
  }

  #enqueue(work: () => Promise<void>, request?: Request): void {
    this.#tail = this.#tail.then(work).catch((error) => this.#failed(error, request));
  }

  #failed(error: unknown, request?: Request): void {
    if (this.session.link.state === "left") return;
    const known = error instanceof FrameError || error instanceof ApiError ? error : frameErrorOf(error);
    const { log } = this.#deps.runtime;
    if (!known) log.error({ err: error, request: request?.case }, "a request of a LiveKit client failed");
    if (request) {
      const reason =
        known?.code === "PERMISSION_DENIED"
          ? RequestResponse_Reason.NOT_ALLOWED
          : RequestResponse_Reason.UNCLASSIFIED_ERROR;
      this.refuse(request, reason, known?.message ?? "the server could not do this");
    }
  }

  #push(push: Push): void {
    this.telling.push(push);
    switch (push.type) {
      case "track.unpublished":
        this.#selection.forget(push.trackId);
        this.#enqueue(() => this.#negotiator.changed());
        break;
      case "track.published":
      case "participant.left":
      case "permissions.changed":
        this.#enqueue(() => this.#negotiator.changed());
        break;
    }
  }

  #pong(request: Extract<Request, { case: "pingReq" | "ping" | "trickle" }>): void {
    const timestamp = BigInt(this.#deps.runtime.now());
    if (request.case === "pingReq") {
      const value = new Pong({ lastPingTimestamp: request.value.timestamp, timestamp });
      this.send({ case: "pongResp", value });
    } else if (request.case === "ping") this.send({ case: "pong", value: timestamp });
  }

  #node(): MediaNode {
    const { placed } = this.session.room;
    if (!placed) throw new ApiError("SVC_RTC_SERVER_UNREACHABLE");
    return placed.node;
  }
}
