import type { CaptionOptions } from "../../../src/protocol/data/captions.ts";
import type { StreamHandler } from "../../../src/protocol/data/data-streams.ts";
import { Emitter } from "../../../src/protocol/data/emitter.ts";
import type { RequestHandler, RequestOptions } from "../../../src/protocol/data/requests.ts";
import {
  type DataMessage,
  type DataOptions,
  RoomData,
  type RoomDataDeps,
  type SendFileOptions,
} from "../../../src/protocol/data/room-data.ts";
import type { StreamOptions, StreamWriter } from "../../../src/protocol/data/stream-writer.ts";
import { mayPublish } from "../../../src/protocol/may-publish.ts";
import type { Knock, Participant, Permissions, RoomState, Speaker } from "../../../src/protocol/room-records.ts";
import type { JoinAck, Push } from "../../../src/protocol/signaling.ts";
import { type ConnectionState, warnAboutWaiting } from "../connection-state.ts";
import type { Encryption } from "../encryption/encryption.ts";
import { type ErrorReason, isLost, StoaError } from "../errors.ts";
import { Rest } from "../rest.ts";
import { uuid } from "../uuid.ts";
import { AudioOutput } from "./audio-output.ts";
import { LocalParticipant } from "./local-participant.ts";
import type { LocalTrack } from "./local-track.ts";
import { Media } from "./peer/media.ts";
import { type JoinMode, RoomConnection } from "./peer/room-connection.ts";
import type { RoomStats } from "./peer/stats.ts";
import { Subscriptions } from "./peer/subscriptions.ts";
import type { RemoteParticipant, RemoteTrack } from "./remote-participant.ts";
import { LOCAL_EVENTS, type ParticipantPage, type RoomEvents, type RoomOptions } from "./room-events.ts";
import { Roster } from "./roster.ts";
import { Telemetry } from "./telemetry.ts";

/** A joined room. It reconnects automatically; tracks stay published and elements keep playing. */
export class Room extends Emitter<RoomEvents> {
  /** The local participant. */
  readonly localParticipant: LocalParticipant;
  /** The room's id. */
  id = "";
  /** The room's name. */
  name = "";
  /** The name of the media server that hosts the call. */
  serverName = "";
  /** Whether the room is being recorded; show this to every participant. */
  recording = false;
  /**
   * If the participants agree on keys: six groups of five digits, the same for all of them unless the server has exchanged
   * a key. Null otherwise, and while the room is empty.
   */
  safetyNumber: string | null = null;
  /** For hosts: the participants who wait in the lobby, in the order in which they came. */
  lobby: readonly Knock[] = [];
  /** Whether the room is locked, has a lobby and shows captions, and who is in the spotlight; null before the join. */
  roomState: RoomState | null = null;
  /** The connection's id, to find it in the dashboard and the REST API. */
  readonly connectionId = uuid();
  readonly #options: RoomOptions;
  readonly #connection: RoomConnection;
  readonly #roster: Roster;
  readonly #media: Media;
  readonly #data: RoomData;
  readonly #audio: AudioOutput;
  readonly #telemetry: Telemetry;
  readonly #encryption: Encryption | null;
  #state: ConnectionState = "CONNECTING";
  #mediaFlows = true;
  /** The server's count of participants; 0 while all of them are known. */
  #participantCount = 0;
  /** The metadata that the page has set; undefined while that of the token applies. */
  #metadata: string | null | undefined;

  /** @internal Use `connect`. */
  constructor(endpoint: string, token: string, sdk: string, options: RoomOptions, encryption: Encryption | null) {
    super();
    const { connectionId } = this;
    const { tokenProvider, onWaiting = warnAboutWaiting, autoSubscribe = true, telemetry = true } = options;
    const onError = (error: unknown) => this.#onError(error);
    this.#options = options;
    this.#encryption = encryption;
    if (encryption) {
      encryption.onError = onError;
      encryption.keys.onChanged = () => this.#roster.keysChanged();
      encryption.data.onUnreadable = (identity, reason, messages) =>
        this.emit("dataDropped", { messages, reason, identity });
    }
    this.#connection = new RoomConnection({
      endpoint,
      token,
      sdk,
      tokenProvider,
      connectionId,
      onWaiting,
      onLobby: options.onLobby,
      publicKey: encryption?.publicKey,
      // Keys are sent to each participant, so all of them have to be known.
      roster: encryption?.publicKey ? "all" : options.roster,
      onState: (_state, error) => this.#stateChanged(error),
      onJoined: (ack, mode) => this.#joined(ack, mode),
      onPush: (push) => this.#receive(push),
    });
    const rest = new Rest(endpoint, () => this.#connection.token);
    this.#telemetry = new Telemetry(rest, connectionId, telemetry);
    this.#audio = new AudioOutput(() => this.emit("audioBlocked"));
    const onUnsubscribed = (track: RemoteTrack) => this.#unsubscribed(track);
    const subscriptions = new Subscriptions({
      request: this.#connection.request,
      tracks: () => this.#roster.tracks(),
      onSubscribed: (track) => this.#subscribed(track),
      sharesVoices: encryption || !autoSubscribe ? false : options.sharedVoices,
      onUnsubscribed,
      onError,
      encryption,
    });
    const decryptionOf = (identity: string) => encryption?.keys.decryptionOf(identity) ?? "missing-key";
    this.#roster = new Roster(this, {
      autoSubscribe,
      onChanged: subscriptions.update,
      onUnsubscribed,
      decryptionOf,
      onSelf: (record) => this.#updateSelf(record),
      onKeysMissing: (missingKeysOf) =>
        this.#telemetry.record("participant_connection_quality_changed", { missingKeysOf }),
    });
    this.localParticipant = new LocalParticipant({
      serverUrl: rest.base,
      publish: (track) => this.#media.publish(track),
      unpublish: (track) => this.#media.unpublish(track),
      syncMute: (track) => this.#media.syncMute(track),
      setMetadata: (metadata) => this.#setMetadata(metadata),
      update: (fields) => this.#connection.request("participant.update", fields),
      onDeviceFailed: ({ code, reason }) => this.#telemetry.record("error", { code, reason }),
      onChanged: (event, track) => this.emit(LOCAL_EVENTS[event], track),
      onError,
    });
    this.#data = new RoomData({
      onError,
      newId: uuid,
      encryption: encryption?.data ?? null,
      present: () => [...this.#roster.participants.keys()],
      sendBySocket: (frame) => this.#connection.request("data.send", frame),
      onMessage: (message) => this.emit("dataReceived", message),
      onLeftOut: (identity, topic) => this.emit("dataDropped", { messages: 1, reason: "slow_reader", identity, topic }),
      publisherOf: (trackId) =>
        this.#localTrack(trackId)
          ? this.localParticipant.identity
          : this.#roster.tracks().find(({ id }) => id === trackId)?.participant.identity,
      onCaption: (caption) => this.emit("caption", caption),
      fail: (code, message) => new StoaError(code, DATA_FAILURES[code], message),
    });
    this.on("participantLeft", ({ identity }) => this.#data.participantLeft(identity));
    encryption?.attach(this, this.#data);
    this.#media = new Media({
      connection: this.#connection,
      subscriptions,
      localTracks: this.localParticipant.tracks,
      onError,
      relayOnly: options.relayOnly ?? false,
      encryption,
      data: this.#data,
      onFlow: (mediaFlows) => {
        this.#mediaFlows = mediaFlows;
        this.#stateChanged(null);
      },
      record: (type, data) => this.#telemetry.record(type, data),
    });
  }

  /** The connection's state; `CONNECTED` means that both signaling and media work. */
  get state(): ConnectionState {
    return this.#state;
  }

  /** The other participants, by identity. */
  get participants(): ReadonlyMap<string, RemoteParticipant> {
    return this.#roster.participants;
  }

  /**
   * How many participants are in the room, this one included. In a large room it is the number at the last join or
   * `listParticipants`, unless the roster is `all`.
   */
  get participantCount(): number {
    return Math.max(this.#participantCount, this.participants.size + 1);
  }

  /** A page of all participants, in the order in which they joined; at most 200. */
  async listParticipants(options: { after?: number; limit?: number } = {}): Promise<ParticipantPage> {
    const page = await this.#connection.request("room.participants", options);
    if (this.#participantCount > 0) this.#participantCount = page.participantCount;
    return page;
  }

  /** The active speakers, loudest first. */
  get activeSpeakers(): readonly Speaker[] {
    return this.#roster.activeSpeakers;
  }

  /** @internal */
  async start(): Promise<void> {
    this.#telemetry.record("connection_started");
    const { signal } = this.#options;
    signal?.throwIfAborted();
    signal?.addEventListener("abort", () => this.close());
    await this.#connection.start();
  }

  /** Sends text or bytes of at most 64 KB to all participants, or to those in `options.to`. */
  sendData(payload: string | Uint8Array, options: DataOptions = {}): Promise<void> {
    return this.#data.sendData(payload, options);
  }

  /** Handles the messages of a topic, beside the event `dataReceived`; returns a function that removes the handler. */
  onData(topic: string, handler: (message: DataMessage) => void): () => void {
    return this.#data.onData(topic, handler);
  }

  /** Sends a file of any size; resolves when all of it has been sent. */
  sendFile(file: Blob, options: SendFileOptions = {}): Promise<void> {
    return this.#data.sendFile(file, options);
  }

  /** Sends a text of any length as a stream. */
  sendText(text: string, options: StreamOptions = {}): Promise<void> {
    return this.#data.sendText(text, options);
  }

  /** Begins a stream of text. */
  streamText(options: StreamOptions = {}): StreamWriter {
    return this.#data.streams.write("text", options);
  }

  /** Begins a stream of bytes. */
  streamBytes(options: StreamOptions = {}): StreamWriter {
    return this.#data.streams.write("bytes", options);
  }

  /** Sends speech as text; resolves with the segment's id, with which a later call replaces the text. */
  sendCaption(text: string, options: CaptionOptions = {}): Promise<string> {
    return this.#data.sendCaption(text, options);
  }

  /** Handles the streams and files of a topic, one handler for each; returns a function that removes it. */
  onStream(topic: string, handler: StreamHandler): () => void {
    return this.#data.streams.onStream(topic, handler);
  }

  /** Asks a participant and resolves with its answer; fails with a `RequestError`. */
  request(identity: string, method: string, payload = "", options: RequestOptions = {}): Promise<string> {
    return this.#data.requests.request(identity, method, payload, options);
  }

  /** Answers the requests of a method, one handler for each; returns a function that removes it. */
  onRequest(method: string, handler: RequestHandler): () => void {
    return this.#data.requests.onRequest(method, handler);
  }

  /** As a host: lets a participant in who waits in the lobby. */
  admit(identity: string): Promise<object> {
    return this.#connection.request("lobby.admit", { identity });
  }

  /** As a host: turns away a participant who waits in the lobby. */
  deny(identity: string): Promise<object> {
    return this.#connection.request("lobby.deny", { identity });
  }

  /** As a host: changes the fields that are given; `spotlight` lists identities that everyone sees large. */
  updateRoomState(change: Partial<Omit<RoomState, "version">>): Promise<object> {
    return this.#connection.request("room.update", change);
  }

  /** The connection's current statistics; null before media is connected. */
  getStats(): Promise<RoomStats | null> {
    return this.#media.stats();
  }

  /** Starts audio playback after `audioBlocked`; call it from a click handler. */
  startAudio(): Promise<void> {
    return this.#audio.start();
  }

  /** Plays remote audio on another device, where the browser supports it. */
  async setAudioOutput(deviceId: string): Promise<void> {
    await this.#audio.use(deviceId);
  }

  /** Drops the connection to test how an application handles a reconnection. */
  simulateReconnect(): void {
    this.#connection.reconnect();
  }

  /** Leaves the room, stops all devices and removes all listeners. */
  async close(): Promise<void> {
    this.#telemetry.record("disconnected", { reason: "client" });
    await this.#connection.leave();
    this.#release();
    this.#telemetry.close();
    this.removeAllListeners();
  }

  #joined(ack: JoinAck, mode: JoinMode): void {
    const moved = this.id !== "" && this.id !== ack.room.id;
    this.id = ack.room.id;
    this.name = ack.room.name;
    this.serverName = ack.serverName;
    this.#setRecording(ack.room.recording);
    this.#setLobby(ack.lobby);
    this.#setRoomState(ack.state);
    const { identity } = ack.participant;
    this.localParticipant.permissions = ack.permissions;
    this.#updateSelf(ack.participant);
    try {
      this.#encryption?.joined(ack, mode === "new");
    } catch (error) {
      this.#onError(error);
    }
    if (mode !== "resumed") this.#roster.replace(ack.participants, identity);
    this.#participantCount = ack.roster === "all" ? 0 : ack.participantCount;
    if (mode === "new") {
      this.#telemetry.record("connected");
      this.#mediaFlows = true;
      this.#media.connect(ack);
      if (moved) this.emit("moved", ack.room);
      if (this.#metadata !== undefined) this.#setMetadata(this.#metadata).catch((error) => this.#onError(error));
    } else {
      this.#telemetry.record("reconnected", { how: mode });
      this.#media.resume();
    }
  }

  async #setMetadata(metadata: string | null): Promise<void> {
    this.#metadata = metadata;
    await this.#connection.request("participant.update", { metadata });
  }

  #receive(push: Push): void {
    switch (push.type) {
      case "layers.wanted":
        this.#localTrack(push.trackId)
          ?.setWantedLayers(push.layers)
          .catch((error) => this.#onError(error));
        break;
      case "codecs.wanted":
        this.#media.backUp(this.#localTrack(push.trackId), push.codecs).catch((error) => this.#onError(error));
        break;
      case "media.stalled":
        this.#media.stalled();
        break;
      case "media.flows":
        this.#media.flows();
        break;
      case "quality.explained": {
        const { quality, cause, sentence, evidence } = push;
        this.emit("qualityExplained", { quality, cause, sentence, evidence });
        break;
      }
      case "voices.changed":
        this.#media.voicesChanged(push.voices);
        break;
      case "lobby.changed":
        this.#setLobby(push.waiting);
        break;
      case "room.state":
        this.#setRoomState(push.state);
        break;
      case "recording.changed":
        this.#setRecording(push.active);
        break;
      case "room.moved":
        this.#connection.move(push.token).catch((error) => this.#onError(error));
        break;
      case "permissions.changed":
        this.#permissionsChanged(push.permissions);
        break;
      case "data":
        this.#data.receiveFromSocket(push.from, push.topic, push.payload);
        break;
      case "data.dropped":
        this.emit("dataDropped", { messages: push.messages, reason: push.reason, identity: push.identity });
        break;
      case "data.behind":
        this.#data.readerBehind(push.identity, push.bytes);
        break;
      case "track.muted":
        this.#mutedByServer(push.trackId);
        this.#roster.receive(push);
        break;
      default:
        this.#roster.receive(push);
    }
  }

  #updateSelf({ identity, metadata, name, attributes }: Participant): void {
    Object.assign(this.localParticipant, { identity, metadata, name, attributes });
    this.emit("localParticipantUpdated");
  }

  #setLobby(waiting: readonly Knock[] = []): void {
    this.lobby = waiting;
    this.emit("lobbyChanged", waiting);
  }

  #setRoomState(state: RoomState): void {
    this.roomState = state;
    this.emit("roomStateChanged", state);
  }

  #setRecording(active: boolean): void {
    if (active === this.recording) return;
    this.recording = active;
    this.emit("recordingChanged", active);
  }

  #localTrack(trackId: string): LocalTrack | undefined {
    return [...this.localParticipant.tracks].find(({ id }) => id === trackId);
  }

  #permissionsChanged(permissions: Permissions): void {
    this.localParticipant.permissions = permissions;
    for (const track of [...this.localParticipant.tracks]) {
      if (!mayPublish(permissions, track.kind)) void this.localParticipant.unpublish(track);
    }
    this.#media.permissionsChanged(permissions);
    this.emit("permissionsChanged", permissions);
  }

  /** The server may mute a track, but never unmutes one. */
  #mutedByServer(trackId: string): void {
    const track = this.#localTrack(trackId);
    if (!track || track.muted) return;
    track.setMuted(true);
    this.#media.mutedByServer(track);
    this.emit("localTrackMuted", track);
  }

  #subscribed(track: RemoteTrack): void {
    if (track.kind === "audio" && (this.#options.playAudio ?? true)) this.#audio.add(track);
    this.emit("trackSubscribed", track, track.participant);
  }

  #unsubscribed(track: RemoteTrack): void {
    this.#audio.remove(track);
    this.emit("trackUnsubscribed", track, track.participant);
  }

  /** The room is connected when signaling is connected and media has not stopped. */
  #stateChanged(error: StoaError | null): void {
    const state = this.#connection.state === "CONNECTED" && !this.#mediaFlows ? "RECONNECTING" : this.#connection.state;
    if (state === this.#state) return;
    this.#state = state;
    if (state === "RECONNECTING") this.#telemetry.record("reconnecting", { code: error?.code });
    if (state === "FAILED") this.#telemetry.record("connection_failed", { code: error?.code });
    this.emit("connectionStateChanged", state, error);
    if (state === "DISCONNECTED" || state === "FAILED") this.#release();
  }

  #onError(error: unknown): void {
    // A request that was lost with the connection is made again after the reconnection.
    if (isLost(error)) return;
    const failure =
      error instanceof StoaError ? error : new StoaError("MEDIA_ERROR", "server", String(error), { cause: error });
    this.#telemetry.record("error", { code: failure.code, reason: failure.reason });
    this.emit("error", failure);
  }

  #release(): void {
    this.#media.close();
    this.#audio.close();
    this.#encryption?.close();
    for (const track of this.#roster.tracks()) track.close();
    this.localParticipant.close();
  }
}

const DATA_FAILURES: Record<Parameters<RoomDataDeps["fail"]>[0], ErrorReason> = {
  PAYLOAD_TOO_LARGE: "invalid",
  NOT_CONNECTED: "closed",
  PERMISSION_DENIED: "not-allowed",
  HANDLER_EXISTS: "invalid",
  MISSING_KEY: "invalid",
  NO_READER: "not-found",
  STREAM_ENDED: "cancelled",
  STREAM_ABORTED: "cancelled",
  STREAM_INCOMPLETE: "invalid",
  STREAM_UNREAD: "invalid",
};
