/** A media node on another machine, with the same interface as a local one. */
import type { Log } from "../kernel/log.ts";
import type { Timers } from "../kernel/time/timers.ts";
import type { NodeFiles } from "../protocol/media/node-files.ts";
import type { NodeFrame } from "../protocol/media/node-messages.ts";
import type { OpenedLink, RelayCall } from "../protocol/media/relay.ts";
import {
  type AddParticipant,
  MEDIA_ERROR_CODES,
  type MediaEndpoints,
  MediaError,
  type MediaEvent,
  type MediaMethod,
  type MediaNode,
  type MediaRequest,
  type MediaResponse,
  type ParticipantRef,
  type RoomRef,
  type RoomSnapshot,
} from "../protocol/media-node.ts";
import { NodeAssignments } from "./node-assignments.ts";
import { createNodeReader, MALFORMED } from "./node-reader.ts";
import { type RelayedClient, withRelayedClient } from "./relayed-events.ts";
import { remoteFiles } from "./remote-files.ts";
import { openRemoteLink, type RemoteLink } from "./remote-link.ts";
import type { NodeCall, Welcome } from "./remote-protocol.ts";

type RemoteMediaOptions = {
  serverName: string;
  internalUrl: string;
  /** The shared secret, SFU_REGISTRATION_SECRET. */
  secret: string;
  /** The leader's term; 0 without a cluster. */
  term: number;
  timers: Timers;
  log: Log;
  /** True for an older process of this server, which uses the same data directory. */
  sharesDisk?: boolean;
  /** Finds the client behind a socket of our TURN relay, which appears to the node as the client. */
  relayedClient?: RelayedClient;
  onEndpoints?: () => void;
  /** Called when a message of the node was rejected. */
  onRefused?: (reason: NodeRefusal) => void;
};

/**
 * Why a message was rejected: it violates the protocol, it is about a room or recording that the node was not assigned, or the node
 * sent more than its share.
 */
export type NodeRefusal = "malformed" | "foreign" | "flood";

const CALL_TIMEOUT_MS = 5_000;
/** After this time without a connection, the node's rooms are given up, because their clients would wait in vain. */
const LOST_AFTER_MS = 5_000;
/** Limits the log entries about a node that keeps sending malformed messages. */
const LOG_REFUSALS_EVERY_MS = 10_000;
/** A node's error messages are shown in records and to clients. */
const MAX_REASON_CHARACTERS = 500;

/** `away`: the connection is being restored; `lost`: the node's rooms are given up, and reconnecting continues. */
type State = "away" | "connected" | "lost" | "closed";

type Pending = {
  call: NodeCall;
  resolve(response: unknown): void;
  reject(error: Error): void;
  cancelTimeout(): void;
};

export class RemoteMedia implements MediaNode {
  readonly #options: RemoteMediaOptions;
  readonly #link: RemoteLink;
  readonly #files: NodeFiles;
  readonly #listeners = new Set<(event: MediaEvent) => void>();
  readonly #pending = new Map<number, Pending>();
  readonly #reader = createNodeReader();
  /**
   * The rooms and recordings assigned to the node. They are lost with the node, and its messages about any others are
   * rejected.
   */
  readonly #assigned = new NodeAssignments();
  readonly #settled = Promise.withResolvers<void>();
  #state: State = "away";
  #cancelLoss = () => {};
  #session = { id: crypto.randomUUID() as string, lastSeq: 0 };
  #nextId = 1;
  /**
   * On the first connection the node's rooms are those of an earlier process, later they are rooms that were given up.
   */
  #isFirst = true;
  #endpoints: MediaEndpoints | null = null;
  /** Whether the version of the node can share rooms with other nodes. */
  #hasLinks = false;
  #refused = { count: 0, loggedAtMs: Number.NEGATIVE_INFINITY };

  constructor(options: RemoteMediaOptions) {
    this.#options = options;
    this.#files = remoteFiles(options);
    this.#awaitLoss();
    this.#link = openRemoteLink({
      ...options,
      session: () => {
        if (this.#state === "lost") this.#session = { id: crypto.randomUUID(), lastSeq: 0 };
        return this.#session;
      },
      reader: this.#reader,
      onFrame: (frame) => this.#received(frame),
      onMalformed: () => this.#refuse("malformed", {}),
      onFlood: () => this.#refuse("flood", {}),
      onDown: () => this.#down(),
      onRefused: () => this.#lose(),
    });
  }

  get remote(): NonNullable<MediaNode["remote"]> {
    const { silentMs } = this.#link;
    const { sharesDisk = false } = this.#options;
    return { connected: this.#state === "connected", files: this.#files, links: this.#hasLinks, sharesDisk, silentMs };
  }

  /** Null until the node has reported them. */
  get endpoints(): MediaEndpoints | null {
    return this.#endpoints;
  }

  /** Resolves when the node was reached or is known to be unreachable. */
  get settled(): Promise<void> {
    return this.#settled.promise;
  }

  #received(frame: NodeFrame): void {
    switch (frame.type) {
      case "welcome":
        this.#welcomed(frame);
        break;
      case "pong":
        break;
      case "closing":
        this.#lose();
        break;
      case "event":
        this.#session.lastSeq = frame.seq;
        this.#admit(frame.event);
        break;
      case "answer":
        this.#session.lastSeq = frame.seq;
        this.#answered(frame.id, frame.response);
        break;
      case "error": {
        this.#session.lastSeq = frame.seq;
        const code = MEDIA_ERROR_CODES.find((known) => known === frame.code) ?? "RTC_SERVER_UNREACHABLE";
        this.#take(frame.id)?.reject(new MediaError(code, reasonOf(frame.message)));
        break;
      }
    }
  }

  #admit(value: unknown): void {
    const event = this.#reader.event(value);
    if (event === MALFORMED) {
      this.#refuse("malformed", { frame: "event" });
      return;
    }
    const admitted = this.#assigned.admit(event);
    if (admitted === "foreign") this.#refuse("foreign", { event: event.type });
    else if (admitted !== "late") {
      const { relayedClient = () => null } = this.#options;
      this.#emit(withRelayedClient(withShortReason(admitted), relayedClient));
    }
  }

  #answered(id: number, response: unknown): void {
    const pending = this.#take(id);
    if (!pending) return;
    const { method } = pending.call;
    const answer = this.#reader.answer(method, response);
    if (answer !== MALFORMED) {
      pending.resolve(answer);
      return;
    }
    this.#refuse("malformed", { frame: "answer", method });
    pending.reject(unreachable(`The media node gave no valid answer (${method}).`));
  }

  #refuse(reason: NodeRefusal, details: object): void {
    const { serverName, log, onRefused } = this.#options;
    onRefused?.(reason);
    this.#refused.count += 1;
    const nowMs = performance.now();
    if (nowMs - this.#refused.loggedAtMs < LOG_REFUSALS_EVERY_MS) return;
    log.warn(
      { serverName, reason, ...details, count: this.#refused.count },
      "media node: rejected a message from the node",
    );
    this.#refused = { count: 0, loggedAtMs: nowMs };
  }

  #welcomed({ resumed, lastCall, rooms, links, media }: Welcome): void {
    this.#endpoints = media ?? null;
    this.#hasLinks = links !== undefined;
    this.#options.onEndpoints?.();
    this.#cancelLoss();
    // The node was restarted, or was without this server for too long, so its rooms are lost.
    if (!resumed && !this.#isFirst) this.#lose();
    const wasLost = this.#state === "lost";
    if (!resumed) this.#session.lastSeq = 0;
    this.#state = "connected";
    for (const { call } of this.#pending.values()) if (call.id > lastCall) this.#link.send(call);
    if (this.#isFirst) this.#find(rooms, links ?? []);
    else if (wasLost) this.#closeGivenUp(resumed ? this.rooms() : Promise.resolve(rooms));
    this.#isFirst = false;
    this.#settled.resolve();
  }

  /** The clients of these rooms were moved to other nodes while this node was disconnected. */
  #closeGivenUp(found: Promise<RoomRef[]>): void {
    found
      .then((rooms) => Promise.all(rooms.map((room) => this.#assigned.has(room.roomId) || this.closeRoom(room))))
      .catch((err) => this.#options.log.warn({ err }, "media node: closing abandoned rooms failed"));
  }

  #find(rooms: Welcome["rooms"], links: OpenedLink[]): void {
    this.#assigned.found(rooms, links);
    if (rooms.length > 0 || links.length > 0) this.#emit({ type: "roomsFound", rooms, links });
  }

  #down(): void {
    if (this.#state !== "connected") return;
    this.#state = "away";
    this.#awaitLoss();
  }

  #awaitLoss(): void {
    this.#cancelLoss = this.#options.timers.after(LOST_AFTER_MS, () => this.#lose());
  }

  /** Rejects pending requests and gives up the rooms; a node that reconnects starts without rooms. */
  #lose(): void {
    this.#settled.resolve();
    if (this.#state === "lost" || this.#state === "closed") return;
    this.#cancelLoss();
    this.#state = "lost";
    this.#rejectAll("The media node is lost.");
    const rooms = this.#assigned.clear();
    if (rooms.length === 0) return;
    this.#options.log.warn(
      { serverName: this.#options.serverName, rooms: rooms.length },
      "media node: gone, its rooms are lost",
    );
    this.#emit({ type: "workerCrashed", worker: null, rooms });
  }

  #emit(event: MediaEvent): void {
    for (const listener of this.#listeners) {
      try {
        listener(event);
      } catch (err) {
        const { log, serverName } = this.#options;
        log.error({ err, serverName, event: event.type }, "media node: event handler failed");
      }
    }
  }

  #take(id: number): Pending | undefined {
    const pending = this.#pending.get(id);
    pending?.cancelTimeout();
    this.#pending.delete(id);
    return pending;
  }

  #rejectAll(message: string): void {
    for (const id of [...this.#pending.keys()]) this.#take(id)?.reject(unreachable(message));
  }

  /** A request during an interruption waits for the connection; without a timeout, until the node is given up. */
  async #call<M extends MediaMethod>(
    method: M,
    request: MediaRequest<M>,
    timeoutMs: number | null = CALL_TIMEOUT_MS,
  ): Promise<MediaResponse<M>> {
    if (this.#state === "lost" || this.#state === "closed") throw unreachable("The media node is not connected.");
    const call: NodeCall = { type: "call", id: this.#nextId++, method, request };
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const expire = () => this.#take(call.id)?.reject(unreachable(`The media node does not answer (${method}).`));
    const cancelTimeout = timeoutMs === null ? () => {} : this.#options.timers.after(timeoutMs, expire);
    this.#pending.set(call.id, { call, resolve, reject, cancelTimeout });
    if (this.#state === "connected") this.#link.send(call);
    return (await promise) as MediaResponse<M>;
  }

  async openRoom(request: MediaRequest<"openRoom">): Promise<void> {
    if (this.#assigned.has(request.roomId)) return;
    try {
      await this.#call("openRoom", request);
      this.#assigned.open(request.roomId);
    } catch (error) {
      // The room may have been opened despite the error, and would never be closed.
      this.closeRoom(request).catch(() => {});
      throw error;
    }
  }

  async closeRoom({ roomId }: RoomRef): Promise<void> {
    this.#assigned.close(roomId);
    await this.#call("closeRoom", { roomId }, null);
  }

  async addParticipant(request: AddParticipant): Promise<void> {
    this.#assigned.add(request);
    await this.#call("addParticipant", request);
  }

  async removeParticipant(request: ParticipantRef): Promise<void> {
    // The node sends events about the participant before the response.
    await this.#call("removeParticipant", request, null).finally(() => this.#assigned.remove(request));
  }

  setPermissions = (request: MediaRequest<"setPermissions">) => this.#call("setPermissions", request);
  negotiate = (request: MediaRequest<"negotiate">) => this.#call("negotiate", request);
  updateSubscriptions = (request: MediaRequest<"updateSubscriptions">) => this.#call("updateSubscriptions", request);
  setTrackMuted = (request: MediaRequest<"setTrackMuted">) => this.#call("setTrackMuted", request);
  unpublish = (request: MediaRequest<"unpublish">) => this.#call("unpublish", request);
  sendData = (request: MediaRequest<"sendData">) => this.#call("sendData", request);

  /** The node writes times of its own clock, which may differ from ours and from those of the room's other nodes. */
  startRecording(request: MediaRequest<"startRecording">): Promise<void> {
    this.#assigned.record(request);
    const startedAtMs = Math.round(request.startedAtMs + this.#link.clockOffsetMs);
    return this.#call("startRecording", { ...request, startedAtMs });
  }

  /** The recording may have been started by an earlier process. */
  stopRecording(request: MediaRequest<"stopRecording">): Promise<void> {
    this.#assigned.record(request);
    return this.#call("stopRecording", request);
  }

  linkPoint = (request: RoomRef) => this.#call("linkPoint", request);

  relay(call: RelayCall): Promise<void> {
    this.#assigned.relay(call);
    return this.#call("relay", call);
  }

  setNetwork = (request: MediaRequest<"setNetwork">) => this.#call("setNetwork", request);
  limitDownlink = (request: MediaRequest<"limitDownlink">) => this.#call("limitDownlink", request);
  flight = (request: ParticipantRef) => this.#call("flight", request);
  rooms = () => this.#call("rooms", undefined);
  load = () => this.#call("load", undefined);

  async room({ roomId }: RoomRef): Promise<RoomSnapshot | null> {
    const snapshot = await this.#call("room", { roomId });
    if (snapshot?.roomId !== roomId) return null;
    return { roomId, participants: snapshot.participants.filter((one) => this.#assigned.holds(roomId, one)) };
  }

  onEvent(listener: (event: MediaEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The node has moved to another URL and lost its rooms. */
  abandon(): void {
    this.#lose();
  }

  async close(): Promise<void> {
    this.#state = "closed";
    this.#cancelLoss();
    this.#link.close();
    this.#settled.resolve();
    this.#rejectAll("The connection to the media node is closed.");
    this.#listeners.clear();
  }
}

function unreachable(message: string): MediaError {
  return new MediaError("RTC_SERVER_UNREACHABLE", message);
}

function reasonOf(message: string): string {
  return message
    .replaceAll(/\p{Cc}+/gu, " ")
    .slice(0, MAX_REASON_CHARACTERS)
    .toWellFormed();
}

/** The reason for a failed recording is saved in its record. */
function withShortReason(event: MediaEvent): MediaEvent {
  return event.type === "recordingFailed" ? { ...event, reason: reasonOf(event.reason) } : event;
}
