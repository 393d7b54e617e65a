/** A media node on another machine, as a MediaNode of this process. */
import type { Log } from "../kernel/log.ts";
import type { Timers } from "../kernel/time/timers.ts";
import type { NodeFiles } from "../protocol/media/node-files.ts";
import { MEDIA_ERROR_CODES, type NodeFrame } from "../protocol/media/node-messages.ts";
import {
  type AddParticipant,
  MediaError,
  type MediaEvent,
  type MediaMethod,
  type MediaNode,
  type MediaPlaces,
  type MediaRequest,
  type MediaResponse,
  type ParticipantRef,
  type RoomRef,
  type RoomSnapshot,
} from "../protocol/media-node.ts";
import { NodeAssignments } from "./node-assignments.ts";
import { createNodeReader, MALFORMED } from "./node-reader.ts";
import { asSeenByClients, type ClientBehind } from "./relayed-events.ts";
import { remoteFiles } from "./remote-files.ts";
import { openRemoteLink, type RemoteLink } from "./remote-link.ts";
import type { NodeCall, Welcome } from "./remote-protocol.ts";

type RemoteMediaOptions = {
  serverName: string;
  internalUrl: string;
  /** What both sides know: SFU_REGISTRATION_SECRET. */
  secret: string;
  /** 0 for a server that stands alone. */
  term: number;
  timers: Timers;
  log: Log;
  /** Who is behind a socket of our relay, which a node takes for the client itself. */
  clientBehind?: ClientBehind;
  /** The node has said where its media is. */
  onPlaces?: () => void;
  /** Something that the node sent was dropped. */
  onRefused?: (reason: NodeRefusal) => void;
};

/** It is not of the protocol, or about what the node was not given. */
export type NodeRefusal = "malformed" | "foreign";

const CALL_TIMEOUT_MS = 5_000;
/** Without a connection for so long, its rooms are given up: their clients would wait for nothing. */
const LOST_AFTER_MS = 5_000;
/** A node that sends nonsense without end fills no log. */
const LOG_REFUSALS_EVERY_MS = 10_000;
/** What a node calls an error reaches records and clients. */
const MAX_REASON_CHARACTERS = 500;

/** `away` waits for the connection to return, `lost` expects nothing of it any more (and still dials). */
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
  /** What is lost when the node is, and all that it may speak of. */
  readonly #assigned = new NodeAssignments();
  readonly #settled = Promise.withResolvers<void>();
  #state: State = "away";
  #cancelLoss = () => {};
  #conversation = { id: crypto.randomUUID() as string, lastSeq: 0 };
  #nextId = 1;
  /** Rooms that are found were those of an earlier process; later on they are those that were given up. */
  #isFirst = true;
  #places: MediaPlaces | null = null;
  #refused = { count: 0, loggedAtMs: Number.NEGATIVE_INFINITY };

  constructor(options: RemoteMediaOptions) {
    this.#options = options;
    this.#files = remoteFiles(options);
    this.#awaitLoss();
    this.#link = openRemoteLink({
      ...options,
      conversation: () => {
        if (this.#state === "lost") this.#conversation = { id: crypto.randomUUID(), lastSeq: 0 };
        return this.#conversation;
      },
      reader: this.#reader,
      onFrame: (frame) => this.#received(frame),
      onMalformed: () => this.#refuse("malformed", {}),
      onDown: () => this.#down(),
      onRefused: () => this.#lose(),
    });
  }

  get remote(): { connected: boolean; files: NodeFiles } {
    return { connected: this.#state === "connected", files: this.#files };
  }

  /** Null until it has said so. */
  get places(): MediaPlaces | null {
    return this.#places;
  }

  /** Resolves when the node was reached, or is known not to be there. */
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
        this.#conversation.lastSeq = frame.seq;
        this.#happened(frame.event);
        break;
      case "answer":
        this.#conversation.lastSeq = frame.seq;
        this.#answered(frame.id, frame.response);
        break;
      case "error": {
        this.#conversation.lastSeq = frame.seq;
        const code = MEDIA_ERROR_CODES.find((known) => known === frame.code) ?? "RTC_SERVER_UNREACHABLE";
        this.#take(frame.id)?.reject(new MediaError(code, reasonOf(frame.message)));
        break;
      }
    }
  }

  #happened(told: unknown): void {
    const event = this.#reader.event(told);
    if (event === MALFORMED) {
      this.#refuse("malformed", { frame: "event" });
      return;
    }
    const admitted = this.#assigned.admit(event);
    if (admitted === "foreign") this.#refuse("foreign", { event: event.type });
    else if (admitted !== "late") {
      const { clientBehind = () => null } = this.#options;
      this.#emit(asSeenByClients(withShortReason(admitted), clientBehind));
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

  /** What is not of the protocol, or not about what the node was given, has no effect. */
  #refuse(reason: NodeRefusal, details: object): void {
    const { serverName, log, onRefused } = this.#options;
    onRefused?.(reason);
    this.#refused.count += 1;
    const nowMs = performance.now();
    if (nowMs - this.#refused.loggedAtMs < LOG_REFUSALS_EVERY_MS) return;
    log.warn({ serverName, reason, ...details, count: this.#refused.count }, "media node: message refused");
    this.#refused = { count: 0, loggedAtMs: nowMs };
  }

  #welcomed({ resumed, lastCall, rooms, media }: Welcome): void {
    this.#places = media ?? null;
    this.#options.onPlaces?.();
    this.#cancelLoss();
    // The node started anew, or was without us for too long: what it had of ours is gone.
    if (!resumed && !this.#isFirst) this.#lose();
    const wasLost = this.#state === "lost";
    if (!resumed) this.#conversation.lastSeq = 0;
    this.#state = "connected";
    for (const { call } of this.#pending.values()) if (call.id > lastCall) this.#link.send(call);
    if (this.#isFirst) this.#find(rooms);
    else if (wasLost) this.#closeGivenUp(resumed ? this.rooms() : Promise.resolve(rooms));
    this.#isFirst = false;
    this.#settled.resolve();
  }

  /** Their clients were sent elsewhere while the node was away. */
  #closeGivenUp(found: Promise<RoomRef[]>): void {
    found
      .then((rooms) => Promise.all(rooms.map((room) => this.#assigned.has(room.roomId) || this.closeRoom(room))))
      .catch((err) => this.#options.log.warn({ err }, "media node did not close the rooms that were given up"));
  }

  #find(rooms: Welcome["rooms"]): void {
    this.#assigned.found(rooms);
    if (rooms.length > 0) this.#emit({ type: "roomsFound", rooms });
  }

  #down(): void {
    if (this.#state !== "connected") return;
    this.#state = "away";
    this.#awaitLoss();
  }

  #awaitLoss(): void {
    this.#cancelLoss = this.#options.timers.after(LOST_AFTER_MS, () => this.#lose());
  }

  /** Calls fail, rooms are given up, and the node starts from nothing should it come back. */
  #lose(): void {
    this.#settled.resolve();
    if (this.#state === "lost" || this.#state === "closed") return;
    this.#cancelLoss();
    this.#state = "lost";
    this.#rejectAll("The media node is lost.");
    const rooms = this.#assigned.clear();
    if (rooms.length === 0) return;
    this.#options.log.warn({ serverName: this.#options.serverName, rooms: rooms.length }, "media node lost");
    this.#emit({ type: "workerCrashed", worker: null, rooms });
  }

  #emit(event: MediaEvent): void {
    for (const listener of this.#listeners) {
      try {
        listener(event);
      } catch (err) {
        const { log, serverName } = this.#options;
        log.error({ err, serverName, event: event.type }, "media node: event could not be handled");
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

  /** A call made while the connection is away waits for it; an ending one as long as the node is not given up. */
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
      // It may have been opened all the same, and then nobody would ever close it.
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
    // What it still says of the participant, it says before its answer.
    await this.#call("removeParticipant", request, null).finally(() => this.#assigned.remove(request));
  }

  setPermissions = (request: MediaRequest<"setPermissions">) => this.#call("setPermissions", request);
  negotiate = (request: MediaRequest<"negotiate">) => this.#call("negotiate", request);
  updateSubscriptions = (request: MediaRequest<"updateSubscriptions">) => this.#call("updateSubscriptions", request);
  setTrackMuted = (request: MediaRequest<"setTrackMuted">) => this.#call("setTrackMuted", request);
  unpublish = (request: MediaRequest<"unpublish">) => this.#call("unpublish", request);
  sendData = (request: MediaRequest<"sendData">) => this.#call("sendData", request);

  startRecording(request: MediaRequest<"startRecording">): Promise<void> {
    this.#assigned.record(request);
    return this.#call("startRecording", request);
  }

  /** Also one that an earlier process started. */
  stopRecording(request: MediaRequest<"stopRecording">): Promise<void> {
    this.#assigned.record(request);
    return this.#call("stopRecording", request);
  }

  setNetwork = (request: MediaRequest<"setNetwork">) => this.#call("setNetwork", request);
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

  /** It lives elsewhere now: what it had of ours is gone. */
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

/** Why a recording failed is kept in its record. */
function withShortReason(event: MediaEvent): MediaEvent {
  return event.type === "recordingFailed" ? { ...event, reason: reasonOf(event.reason) } : event;
}
