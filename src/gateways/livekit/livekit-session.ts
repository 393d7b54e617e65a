import type { JsonValue } from "@bufbuild/protobuf";
import {
  type CandidateProtocol,
  type ClientInfo,
  Pong,
  RequestResponse,
  RequestResponse_Reason,
  RoomMovedResponse,
  SignalResponse,
  type SimulateScenario,
  type SubscriptionPermission,
  type TrackInfo,
  TrackSubscribed,
} from "@livekit/protocol";
import type { RoomRow } from "../../features/rooms/room.table.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { FrameError, frameErrorOf } from "../../kernel/socket/frame-error.ts";
import { createFrameBudget } from "../../kernel/socket/frame-reader.ts";
import type { Socket, TopicSocket } from "../../kernel/socket/sockets.ts";
import { CLOSE_CODES, type CloseCode } from "../../protocol/close-codes.ts";
import { ApiError } from "../../protocol/errors.ts";
import { trackSid } from "../../protocol/media/livekit-sids.ts";
import { type Push, SDP_MAX_BYTES } from "../../protocol/signaling.ts";
import type { RtcSession } from "../signaling/rtc-session.ts";
import type { SignalingCore } from "../signaling/signaling.ts";
import { type ForcedTransport, withoutUdp } from "./forced-transports.ts";
import type { ConnectionMode } from "./join-request.ts";
import { fieldsCost, frameCost } from "./message-reader.ts";
import { type Message, type Negotiator, type NegotiatorState, refOf } from "./negotiation/negotiator.ts";
import { oneConnection } from "./negotiation/one-connection.ts";
import { twoConnections } from "./negotiation/two-connections.ts";
import { type PublishedState, PublishedTracks } from "./published-tracks.ts";
import { type LivekitDetails, roomInfo } from "./records.ts";
import { SignalNotifier } from "./signal-notifier.ts";
import { createRequestHandler, isKeepalive, type Request, readRequest, requestReference } from "./signal-requests.ts";
import { type PermissionsState, requestedPermissions, SubscriptionPermissions } from "./subscription-permissions.ts";
import type { LivekitToken } from "./tokens.ts";
import { type SelectionState, TrackSelection } from "./track-selection.ts";

/** Enough for the session description of a full room, which LiveKit's clients do not compress. */
export const MAX_FRAME_BYTES = SDP_MAX_BYTES + 16_384;
/** LiveKit's clients send one frame for each change, while our clients send several changes in one frame. */
const FRAMES_PER_OURS = 5;
const MAX_SIMULATED_SECONDS = 60;
const TOO_MANY_REQUESTS = "too many requests; try again later";
/** LiveKit's browser client takes two seconds to reconnect, even if it is connected sooner. */
const DEFER_CHANGES_MS = 2_500;
/** The rest after a change of who receives the client's tracks, for each participant and each track that one gets or loses by it. */
const REST_MS = 1;

/** The state with which a newer process of this server continues a session. */
export type LivekitState = {
  client: JsonValue;
  mode: ConnectionMode;
  autoSubscribe: boolean;
  isRecorder: boolean;
  published: PublishedState;
  selection: SelectionState;
  receivers: PermissionsState;
  negotiator: NegotiatorState;
};

type LivekitSessionDeps = {
  runtime: Runtime;
  signaling: SignalingCore;
  details: LivekitDetails;
  session: RtcSession;
  client: ClientInfo;
  mode: ConnectionMode;
  autoSubscribe: boolean;
  isRecorder: boolean;
  row(roomId: string): RoomRow | undefined;
  /** The token of the client's newest socket; null until the client resumes a session of an earlier process. */
  token: LivekitToken | null;
  /** Signs a token with which this client may join another room with the permissions that it has in this one. */
  tokenFor(held: LivekitToken, roomName: string): Promise<string>;
  sessionOf(sessionId: string): LivekitSession | undefined;
  /** What the client has asked for this session; null for what connects best. */
  forcedTransport: ForcedTransport | null;
  /** Remembers the transport that the client asks for in its next session. */
  forceTransport(protocol: CandidateProtocol): void;
  before?: LivekitState;
};

type ReceivingChange = { trackId: string; allowed: boolean };

const nextTurn = () => new Promise<void>((resolve) => void setImmediate(resolve));

/** One connected LiveKit client: its socket uses protobuf, and the room treats it like one of our own clients. */
export class LivekitSession {
  readonly session: RtcSession;
  readonly client: ClientInfo;
  readonly mode: ConnectionMode;
  readonly isRecorder: boolean;
  token: LivekitToken | null;
  readonly notifier: SignalNotifier;
  readonly published: PublishedTracks;
  readonly #selection: TrackSelection;
  readonly #negotiator: Negotiator;
  #receivers: SubscriptionPermissions;
  /** What the client has asked for and is not applied yet. */
  #wantedReceivers: SubscriptionPermission | null = null;
  #isResting = false;
  readonly #handleRequest: (request: Request) => Promise<void>;
  readonly #spend: ReturnType<typeof createFrameBudget>;
  readonly #spendOnPings: ReturnType<typeof createFrameBudget>;
  #link: { network: TopicSocket; socket: Socket } | null = null;
  #tail: Promise<void> = Promise.resolve();
  #cancelDeferral: (() => void) | null = null;

  constructor(private readonly deps: LivekitSessionDeps) {
    const { runtime, session, details, row, before } = deps;
    this.#receivers = new SubscriptionPermissions(before?.receivers);
    this.session = session;
    this.client = deps.client;
    this.mode = deps.mode;
    this.isRecorder = deps.isRecorder;
    this.token = deps.token;
    const send = (message: Message) => this.send(message);
    session.publishing = {
      mayReceive: (receiver, trackId) => this.#receivers.mayReceive(receiver, trackId),
      received: (receiver, trackId) => this.#received(receiver, trackId),
    };
    session.gatewayState = () => this.#state();
    this.published = new PublishedTracks(session, before?.published);
    this.#selection = new TrackSelection(session, deps.autoSubscribe, before?.selection);
    this.notifier = new SignalNotifier({
      session,
      published: this.published,
      details,
      row: () => row(session.room.id),
      send,
    });
    const negotiate = deps.mode === "one" ? oneConnection : twoConnections;
    this.#negotiator = negotiate({
      session,
      send,
      published: this.published,
      selection: this.#selection,
      node: () => this.session.site.node,
      before: before?.negotiator,
    });
    this.#handleRequest = createRequestHandler({
      session,
      send,
      published: this.published,
      selection: this.#selection,
      notifier: this.notifier,
      negotiator: this.#negotiator,
      requests: deps.signaling.requests,
      publisherLimit: deps.signaling.publisherLimit,
      node: () => this.session.site.node,
      refuse: (request, reason, message) => this.refuse(request, reason, message),
      leave: () => this.#leave(),
      simulate: (scenario) => this.#simulate(scenario),
      setReceivers: (permission) => this.#setReceivers(permission),
    });
    const { SIGNALING_MAX_MESSAGES_PER_WINDOW: frames, RATE_LIMIT_WINDOW_SECONDS: seconds } = runtime.config;
    this.#spend = createFrameBudget(runtime.now, frames * FRAMES_PER_OURS, seconds);
    this.#spendOnPings = createFrameBudget(runtime.now, frames * FRAMES_PER_OURS, seconds);
  }

  #state(): LivekitState {
    this.notifier.canResume = true;
    const { client, mode, isRecorder } = this;
    return {
      client: client.toJson(),
      mode,
      isRecorder,
      autoSubscribe: this.deps.autoSubscribe,
      published: this.published.state(),
      selection: this.#selection.state(),
      receivers: (this.#wantedReceivers ? requestedPermissions(this.#wantedReceivers) : this.#receivers).state(),
      negotiator: this.#negotiator.state(),
    };
  }

  /** Makes this the client's socket. The first message is sent before any push of the room. */
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
    this.deps.signaling.membership.attach(this.session, socket);
    return socket;
  }

  /**
   * Keeps the room as it was in the join response until this client handles changes. LiveKit's browser client defers
   * events for two seconds after it has rejoined and then never emits them, so that participants who joined in the
   * meantime would never be shown.
   */
  deferChanges(): void {
    this.notifier.hold();
    this.#selection.hold();
    this.#cancelDeferral = this.deps.runtime.timers.after(DEFER_CHANGES_MS, () => {
      if (this.session.link.state === "left") return;
      this.#releaseChanges();
      this.#enqueue(() => this.#negotiator.update());
    });
  }

  #releaseChanges(): void {
    this.#cancelDeferral?.();
    this.#cancelDeferral = null;
    this.#selection.release();
    this.notifier.release();
  }

  resume(): void {
    this.#releaseChanges();
    this.#enqueue(() => this.#negotiator.resume());
  }

  send(sent: Message): void {
    const message = this.forcedTransport === "tcp" ? withoutUdp(sent) : sent;
    this.#link?.network.sendBytes(new SignalResponse({ message }).toBinary());
  }

  get forcedTransport(): ForcedTransport | null {
    return this.deps.forcedTransport;
  }

  received(socket: Socket, text: string | null, binary: Buffer | undefined): void {
    if (this.#link?.socket !== socket) return;
    // Pings and unused ICE candidates skip the queue and have their own limit.
    const isPing = isKeepalive(binary);
    const spend = isPing ? this.#spendOnPings : this.#spend;
    const cost = frameCost(binary?.length ?? text?.length ?? 0);
    const verdict = spend(cost);
    if (verdict.kind === "flood") {
      this.#end(CLOSE_CODES.tooManyAttempts, "too many frames");
      return;
    }
    // A refused request would be decoded only to name it in the response, which is too expensive for a large one.
    if (verdict.kind === "over" && cost > 1) {
      this.refuse({ case: undefined }, RequestResponse_Reason.LIMIT_EXCEEDED, TOO_MANY_REQUESTS);
      return;
    }
    const decoded = readRequest(text, binary);
    if (!decoded) {
      this.#end(CLOSE_CODES.malformed, "malformed");
      return;
    }
    const { request, fields } = decoded;
    const isOver = spend(fieldsCost(fields)).kind !== "ok" || verdict.kind === "over";
    if (request.case === "pingReq" || request.case === "ping" || request.case === "trickle") {
      this.#pong(request);
      return;
    }
    if (isOver) {
      this.refuse(request, RequestResponse_Reason.LIMIT_EXCEEDED, TOO_MANY_REQUESTS);
      return;
    }
    this.#enqueue(() => this.#handleRequest(request), request);
  }

  /** Disconnects a client that violates the protocol; the participant leaves the room when its resume window ends. */
  #end(code: CloseCode, reason: string): void {
    this.notifier.bye("failed", "stop");
    this.#link?.network.close(code, reason);
  }

  #leave(): void {
    this.deps.signaling.membership.leave(this.session, "left");
    this.#link?.network.close(1000, "left");
    this.#link = null;
  }

  /** Test scenarios of LiveKit's clients. Returns false for those that are not served. */
  async #simulate({ scenario }: SimulateScenario): Promise<boolean> {
    const { deps, session, notifier } = this;
    switch (scenario.case) {
      case "speakerUpdate": {
        const speakers = [{ identity: session.identity, level: 0.9 }];
        notifier.push({ seq: 0, type: "speakers.changed", speakers });
        const silent = () => notifier.push({ seq: 0, type: "speakers.changed", speakers: [] });
        deps.runtime.timers.after(Math.min(scenario.value, MAX_SIMULATED_SECONDS) * 1000, silent);
        return true;
      }
      // The session ends without notice, so the client's attempt to resume turns into a new join.
      case "nodeFailure":
        deps.signaling.membership.leave(session, "failed");
        this.#link?.network.close(CLOSE_CODES.restart, "simulated");
        return true;
      // The session is not migrated: only the client's part of a migration can be tested, which is to resume.
      case "migration":
        this.#link?.network.close(CLOSE_CODES.restart, "simulated");
        return true;
      // The client leaves and joins again.
      case "switchCandidateProtocol":
        deps.forceTransport(scenario.value);
        return true;
      case "subscriberBandwidth": {
        const bitsPerSecond = scenario.value > 0n ? Number(scenario.value) : null;
        await session.site.node.limitDownlink({ ...refOf(session), bitsPerSecond });
        return true;
      }
      case "leaveRequestFullReconnect":
        notifier.bye("restart", "rejoin");
        return true;
      case "serverLeave":
        notifier.bye("restart", "stop");
        this.#leave();
        return true;
      default:
        return false;
    }
  }

  handle(request: Request): void {
    this.#enqueue(() => this.#handleRequest(request), request);
  }

  /** Notifies the client, once, that its track has a subscriber. */
  #received(receiver: RtcSession, trackId: string): void {
    const track = this.published.find(trackId);
    if (!track || track.isReceived || receiver.hidden) return;
    track.isReceived = true;
    this.send({ case: "trackSubscribed", value: new TrackSubscribed({ trackSid: trackSid(trackId) }) });
  }

  /**
   * One small frame changes tracks for all other participants, so a client that sends many has only its newest one applied,
   * after a rest.
   */
  async #setReceivers(permission: SubscriptionPermission): Promise<void> {
    this.#wantedReceivers = permission;
    if (!this.#isResting) await this.#applyReceivers();
  }

  async #applyReceivers(): Promise<void> {
    const wanted = this.#wantedReceivers;
    if (!wanted) return;
    this.#wantedReceivers = null;
    this.#isResting = true;
    const before = this.#receivers;
    this.#receivers = requestedPermissions(wanted);
    const others = [...this.session.room.sessions.values()].filter((other) => other !== this.session);
    let changes = 0;
    let failure: unknown;
    for (const other of others) {
      // Each participant takes a turn of the event loop, with the negotiation that follows.
      await nextTurn();
      if (this.session.link.state === "left") return;
      const changed = this.#changesFor(other, before);
      changes += changed.length;
      await this.#tellReceiver(other, changed).catch((error) => {
        failure ??= error;
      });
    }
    this.deps.runtime.timers.after(REST_MS * (others.length + changes), () => {
      this.#isResting = false;
      if (this.#wantedReceivers) this.#enqueue(() => this.#applyReceivers());
    });
    if (failure) throw failure;
  }

  #changesFor(other: RtcSession, before: SubscriptionPermissions): ReceivingChange[] {
    return [...this.session.tracks.keys()].flatMap((trackId) => {
      const allowed = this.#receivers.mayReceive(other, trackId);
      return allowed === before.mayReceive(other, trackId) ? [] : [{ trackId, allowed }];
    });
  }

  /** If a participant may no longer receive a track, it gets no more of its packets, whatever its client does. */
  async #tellReceiver(other: RtcSession, changed: readonly ReceivingChange[]): Promise<void> {
    if (changed.length === 0 || other.link.state === "left") return;
    const lost = changed.filter(({ allowed }) => !allowed);
    if (lost.length > 0) {
      const tracks = lost.map(({ trackId }) => ({ trackId, mid: null }));
      await other.site.node.updateSubscriptions({ ...refOf(other), tracks });
    }
    this.deps.sessionOf(other.id)?.receivingChanged(this.session, changed);
  }

  /** The publisher has allowed or forbidden this client to receive these tracks. */
  receivingChanged(publisher: RtcSession, changed: readonly ReceivingChange[]): void {
    for (const { trackId, allowed } of changed) this.notifier.receiving(publisher, trackId, allowed);
    this.#enqueue(async () => {
      const tracks = changed.flatMap(({ trackId, allowed }) => {
        // The client has not negotiated since it lost the track, so the track still has its section.
        const section = allowed ? this.#negotiator.sections.of(trackId) : undefined;
        return section ? [{ trackId, mid: section.mid, ...this.#selection.settingsOf(trackId) }] : [];
      });
      if (tracks.length > 0) {
        await this.session.site.node.updateSubscriptions({ ...refOf(this.session), tracks });
      }
      await this.#negotiator.update();
    });
  }

  refuse(request: Request, reason: RequestResponse_Reason, message: string): void {
    const value = new RequestResponse({ reason, message, ...requestReference(request) });
    this.send({ case: "requestResponse", value });
  }

  #enqueue(work: () => Promise<void>, request?: Request): void {
    this.#tail = this.#tail.then(work).catch((error) => this.#failed(error, request));
  }

  #failed(error: unknown, request?: Request): void {
    if (this.session.link.state === "left") return;
    const known = error instanceof FrameError || error instanceof ApiError ? error : frameErrorOf(error);
    const { log } = this.deps.runtime;
    if (!known) log.error({ err: error, request: request?.case }, "livekit: request failed");
    if (request) {
      const reason =
        known?.code === "PERMISSION_DENIED"
          ? RequestResponse_Reason.NOT_ALLOWED
          : RequestResponse_Reason.UNCLASSIFIED_ERROR;
      this.refuse(request, reason, known?.message ?? "the server could not do this");
    }
  }

  /**
   * Tells the client about its new room. The client then joins it as after a lost connection: with the new token, and with the
   * tracks that it publishes.
   */
  async #moved({ room }: Extract<Push, { type: "room.moved" }>): Promise<void> {
    const { session, deps } = this;
    if (!this.token) return deps.signaling.membership.leave(session, "moved");
    const row = deps.row(room.id);
    const token = await deps.tokenFor(this.token, room.name);
    this.send({ case: "refreshToken", value: token });
    const info = row && { room: roomInfo(row, deps.signaling.registry.room(room.id), deps.details) };
    this.send({ case: "roomMoved", value: new RoomMovedResponse({ token, ...info }) });
    this.notifier.bye("moved", "rejoin");
    deps.signaling.membership.leave(session, "moved");
  }

  #push(push: Push): void {
    this.notifier.push(push);
    switch (push.type) {
      case "room.moved":
        this.#enqueue(() => this.#moved(push));
        break;
      case "track.unpublished":
        this.#selection.remove(push.trackId);
        this.#enqueue(() => this.#negotiator.update());
        break;
      case "track.published":
      case "participant.left":
      case "permissions.changed":
        this.#enqueue(() => this.#negotiator.update());
        break;
    }
  }

  #pong(request: Extract<Request, { case: "pingReq" | "ping" | "trickle" }>): void {
    const timestamp = BigInt(this.deps.runtime.now());
    if (request.case === "pingReq") {
      const value = new Pong({ lastPingTimestamp: request.value.timestamp, timestamp });
      this.send({ case: "pongResp", value });
    } else if (request.case === "ping") this.send({ case: "pong", value: timestamp });
  }
}

export type LivekitSessions = ReturnType<typeof createLivekitSessions>;

/** All connected LiveKit clients, with the details of their tracks. */
export function createLivekitSessions({ bus }: Runtime) {
  const sessions = new Map<string, LivekitSession>();
  const tracks = new Map<string, TrackInfo>();
  bus.on("rtcConnection", ["trackPublished", "trackUnpublished", "left"], (event) => {
    const session = sessions.get(event.sessionId);
    if (!session) return;
    if (event.type === "trackPublished") {
      const info = session.published.find(event.track.id)?.info;
      if (info) tracks.set(event.track.id, info);
    } else if (event.type === "trackUnpublished") tracks.delete(event.trackId);
    else {
      sessions.delete(event.sessionId);
      if (session.isRecorder) notifyRoom(event.roomId);
      for (const trackId of session.session.tracks.keys()) tracks.delete(trackId);
    }
  });
  const notifyRoom = (roomId: string) => {
    for (const one of sessions.values()) if (one.session.room.id === roomId) one.notifier.roomChanged();
  };
  bus.on("roomChanged", ({ roomId, fields }) => {
    if (fields.includes("metadata") || fields.includes("maxParticipants")) notifyRoom(roomId);
  });
  const details: LivekitDetails = {
    client: (sessionId) => sessions.get(sessionId)?.client,
    track: (trackId) => tracks.get(trackId),
    isRecorder: (sessionId) => sessions.get(sessionId)?.isRecorder ?? false,
  };
  return {
    details,
    of: (sessionId: string): LivekitSession | undefined => sessions.get(sessionId),
    add(session: LivekitSession): void {
      sessions.set(session.session.id, session);
      for (const trackId of session.session.tracks.keys()) {
        const info = session.published.find(trackId)?.info;
        if (info) tracks.set(trackId, info);
      }
      if (session.isRecorder) notifyRoom(session.session.room.id);
    },
  };
}
