import type { Speaker } from "../../../src/protocol/room-records.ts";
import type { JoinAck, Push } from "../../../src/protocol/signaling.ts";
import type { ConnectionState } from "../connection-state.ts";
import { Emitter } from "../emitter.ts";
import { StoaError } from "../errors.ts";
import { Rest } from "../rest.ts";
import { AudioOutput } from "./audio-output.ts";
import { DataChannels, type DataOptions } from "./data.ts";
import { RoomLink } from "./link.ts";
import { LocalParticipant } from "./local-participant.ts";
import type { LocalTrack } from "./local-track.ts";
import { MediaGuard } from "./media-guard.ts";
import type { RemoteParticipant } from "./remote-participant.ts";
import type { RemoteTrack } from "./remote-track.ts";
import type { RoomEvents, RoomOptions } from "./room-events.ts";
import { Roster } from "./roster.ts";
import { type RoomStats, StatsReader } from "./stats.ts";
import { Subscriptions } from "./subscriptions.ts";
import { Telemetry } from "./telemetry.ts";
import { Transport } from "./transport.ts";

/** A room you are in. It reconnects by itself; tracks stay published and elements keep playing. */
export class Room extends Emitter<RoomEvents> {
  readonly localParticipant: LocalParticipant;
  id = "";
  name = "";
  serverName = "";
  readonly connectionId = crypto.randomUUID();
  readonly #options: RoomOptions;
  readonly #link: RoomLink;
  readonly #roster: Roster;
  readonly #subscriptions: Subscriptions;
  readonly #guard: MediaGuard;
  readonly #audio: AudioOutput;
  readonly #telemetry: Telemetry;
  #stats = new StatsReader();
  #transport: Transport | null = null;
  #data: DataChannels | null = null;

  /** @internal Use `connect`. */
  constructor(endpoint: string, token: string, sdk: string, options: RoomOptions) {
    super();
    this.#options = options;
    this.#link = new RoomLink({
      endpoint,
      token,
      sdk,
      tokenProvider: options.tokenProvider,
      connectionId: this.connectionId,
      onState: (state, error) => this.#stateChanged(state, error),
      onJoined: (ack, resumed) => this.#joined(ack, resumed),
      onPush: (push) => this.#receive(push),
    });
    const { request } = this.#link;
    this.#telemetry = new Telemetry(
      new Rest(endpoint, () => this.#link.token),
      this.connectionId,
      options.telemetry ?? true,
    );
    this.#audio = new AudioOutput(() => this.emit("audioBlocked"));
    this.#guard = new MediaGuard({
      signalingOpen: () => this.#link.open,
      giveUp: () => this.#link.startOver(),
      onRestart: () => this.#telemetry.record("reconnecting", { how: "ice-restart" }),
    });
    this.#roster = new Roster(this, {
      autoSubscribe: options.autoSubscribe ?? true,
      onChanged: () => this.#subscriptions.update(),
      onUnsubscribed: (track) => this.#unsubscribed(track),
    });
    this.#subscriptions = new Subscriptions({
      request,
      tracks: () => this.#roster.tracks(),
      onSubscribed: (track) => this.#subscribed(track),
      onUnsubscribed: (track) => this.#unsubscribed(track),
      onError: (error) => this.#failed(error),
    });
    this.localParticipant = new LocalParticipant({
      request,
      publish: (track) => this.#publish(track),
      unpublish: (track) => this.#unpublish(track),
      onChanged: (event, track) => this.emit(LOCAL_EVENTS[event], track),
      onError: (error) => this.#failed(error),
    });
  }

  get state(): ConnectionState {
    return this.#link.state;
  }

  /** Everyone else, by identity. */
  get participants(): ReadonlyMap<string, RemoteParticipant> {
    return this.#roster.participants;
  }

  /** Loudest first. */
  get activeSpeakers(): readonly Speaker[] {
    return this.#roster.activeSpeakers;
  }

  /** @internal */
  async start(): Promise<void> {
    this.#telemetry.record("connection_started");
    await this.#link.start();
  }

  /** Text to everyone, or to some; at most 64 KB. */
  async sendData(payload: string, options: DataOptions = {}): Promise<void> {
    if (!this.#data) throw new StoaError("NO_DATA", "not-allowed", "This token may not send data.");
    await this.#data.send(payload, options);
  }

  async getStats(): Promise<RoomStats | null> {
    return this.#transport ? this.#stats.read(this.#transport.pc) : null;
  }

  /** From a click, after `audioBlocked`. */
  startAudio(): Promise<void> {
    return this.#audio.start();
  }

  async setAudioOutput(deviceId: string): Promise<void> {
    await this.#audio.use(deviceId);
  }

  /** Leaves, stops every device and forgets every listener. */
  async close(): Promise<void> {
    this.#telemetry.record("disconnected", { reason: "client" });
    await this.#link.leave();
    this.#release();
    await this.#telemetry.close();
    this.removeAllListeners();
  }

  #joined(ack: JoinAck, resumed: boolean): void {
    this.id = ack.room.id;
    this.name = ack.room.name;
    this.serverName = ack.serverName;
    Object.assign(this.localParticipant, {
      identity: ack.participant.identity,
      metadata: ack.participant.metadata,
      permissions: ack.permissions,
    });
    this.#roster.adopt(ack.participants, ack.participant.identity);
    if (resumed && this.#transport) {
      this.#telemetry.record("reconnected", { how: "resume" });
      if (this.#transport.pc.connectionState !== "connected") this.#guard.restart();
      this.#subscriptions.update();
      return;
    }
    this.#telemetry.record("connected");
    this.#connectMedia(ack);
  }

  /** A peer connection of its own for each join; what was published is published again. */
  #connectMedia({ iceServers, permissions }: JoinAck): void {
    this.#transport?.close();
    const transport = new Transport({
      iceServers,
      request: this.#link.request,
      subscribed: () => this.#subscriptions.mapping(),
      onState: (state) => {
        this.#telemetry.record("ice_state_changed", { state });
        this.#guard.stateChanged(state);
      },
    });
    this.#transport = transport;
    this.#stats = new StatsReader();
    this.#guard.watch(transport);
    this.#data = permissions.publishData
      ? new DataChannels(transport.pc, this.#link.request, (m) => this.emit("dataReceived", m))
      : null;
    if (permissions.subscribe) for (const kind of ["audio", "video"] as const) transport.addSections(kind, 2);
    const again = [...this.localParticipant.tracks].map((track) => transport.send(track));
    Promise.all(again)
      .then(() => (again.length > 0 || permissions.subscribe || this.#data ? transport.negotiate() : undefined))
      .then(() => this.#sayMuted())
      .catch((error) => this.#failed(error));
    this.#subscriptions.use(permissions.subscribe ? transport : null);
  }

  async #publish(track: LocalTrack): Promise<void> {
    const transport = this.#transport;
    if (!transport) throw new StoaError("NOT_CONNECTED", "closed", "Join the room first.");
    await transport.send(track);
    try {
      await transport.negotiate();
    } catch (error) {
      // Lost with the connection, not refused: the next join publishes it.
      if (["closed", "network", "timeout"].includes((error as StoaError).reason)) return;
      await transport.stopSending(track);
      throw error;
    }
    this.#telemetry.record("track_published", { kind: track.kind, source: track.source });
  }

  async #unpublish(track: LocalTrack): Promise<void> {
    await this.#transport?.stopSending(track);
    if (track.id !== null) await this.#link.request("track.unpublish", { trackId: track.id }).catch(() => {});
    this.#telemetry.record("track_unpublished", { kind: track.kind, source: track.source });
  }

  async #sayMuted(): Promise<void> {
    for (const { id, muted } of this.localParticipant.tracks) {
      if (id !== null && muted) await this.#link.request("track.mute", { trackId: id, muted });
    }
  }

  #receive(push: Push): void {
    switch (push.type) {
      case "layers.wanted":
        this.#localTrack(push.trackId)
          ?.setWantedLayers(push.layers)
          .catch((error) => this.#failed(error));
        break;
      case "permissions.changed":
        this.localParticipant.permissions = push.permissions;
        this.emit("permissionsChanged", push.permissions);
        break;
      case "data":
        this.emit("dataReceived", { from: push.from, topic: push.topic, payload: push.payload });
        break;
      case "track.muted":
        this.#mutedByServer(push.trackId);
        this.#roster.receive(push);
        break;
      default:
        this.#roster.receive(push);
    }
  }

  #localTrack(trackId: string): LocalTrack | undefined {
    return [...this.localParticipant.tracks].find(({ id }) => id === trackId);
  }

  /** A server may close a microphone; it never opens one. */
  #mutedByServer(trackId: string): void {
    const track = this.#localTrack(trackId);
    if (!track || track.muted) return;
    track.muted = true;
    track.mediaStreamTrack.enabled = false;
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

  #stateChanged(state: ConnectionState, error: StoaError | null): void {
    if (state === "RECONNECTING") this.#telemetry.record("reconnecting", { code: error?.code });
    if (state === "FAILED") this.#telemetry.record("connection_failed", { code: error?.code });
    this.emit("connectionStateChanged", state, error);
    if (state === "DISCONNECTED" || state === "FAILED") this.#release();
  }

  #failed(error: unknown): void {
    const failure =
      error instanceof StoaError ? error : new StoaError("MEDIA_ERROR", "server", String(error), { cause: error });
    if (failure.reason === "closed" || failure.reason === "cancelled") return;
    this.#telemetry.record("error", { code: failure.code, reason: failure.reason });
    this.emit("error", failure);
  }

  #release(): void {
    this.#subscriptions.close();
    this.#guard.close();
    this.#audio.close();
    for (const track of this.#roster.tracks()) track.close();
    this.localParticipant.close();
    this.#transport?.close();
    this.#transport = null;
    this.#data = null;
  }
}

const LOCAL_EVENTS = {
  published: "localTrackPublished",
  unpublished: "localTrackUnpublished",
  muted: "localTrackMuted",
  unmuted: "localTrackUnmuted",
} as const;
