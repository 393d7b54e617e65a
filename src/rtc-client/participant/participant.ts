/** `stoa/participant`: a participant without a browser, for Node 20 or later and Bun: bots, recorders and tests. */

import type { CaptionOptions } from "../../protocol/data/captions.ts";
import type { StreamHandler } from "../../protocol/data/data-streams.ts";
import { Emitter } from "../../protocol/data/emitter.ts";
import type { RequestHandler, RequestOptions } from "../../protocol/data/requests.ts";
import { type DataMessage, type DataOptions, RoomData, type SendFileOptions } from "../../protocol/data/room-data.ts";
import type { StreamOptions, StreamWriter } from "../../protocol/data/stream-writer.ts";
import { KEY_TOPIC } from "../../protocol/encryption/data-cipher.ts";
import type { JoinAck, Push } from "../../protocol/signaling.ts";
import { RtcRefused } from "../signaling-client.ts";
import { AudioSender } from "./audio-sender.ts";
import { type AudioFormat, type AudioSource, openAudio } from "./audio-source.ts";
import { MediaConnection, type SubscribedTrack } from "./media-connection.ts";
import type {
  JoinOptions,
  NetworkFaults,
  ParticipantEvents,
  PublishedTrack,
  RemoteParticipant,
} from "./participant-events.ts";
import { Roster } from "./roster.ts";
import { Session } from "./session.ts";
import { SimulatedNetwork } from "./simulated-network.ts";
import { type EncryptFrame, PLAIN, TrackCipher } from "./track-cipher.ts";
import { VideoSender } from "./video-sender.ts";
import { openVideo, type VideoCodec, type VideoSource } from "./video-source.ts";

export type { StreamHandler } from "../../protocol/data/data-streams.ts";
export { RequestError, type RequestHandler, type RequestOptions } from "../../protocol/data/requests.ts";
export type { StreamReader } from "../../protocol/data/stream-reader.ts";
export type { StreamOptions, StreamWriter } from "../../protocol/data/stream-writer.ts";
export { type EncryptionOptions, type KeyMaterial, KeyProvider } from "../../protocol/encryption/key-provider.ts";
export type { Decryption } from "../../protocol/encryption/room-keys.ts";
export type { AudioFormat, AudioSource } from "./audio-source.ts";
export { tone } from "./audio-source.ts";
export type * from "./participant-events.ts";
export type { VideoCodec, VideoFrame, VideoSource } from "./video-source.ts";
export { bars } from "./video-source.ts";
export { WebSocket } from "./web-socket.ts";

type PublishAudio = Partial<AudioFormat> & { name?: string };
type PublishVideo = { codec?: VideoCodec; source?: "camera" | "screenShare"; name?: string };

/** Joins the room of the token; `endpoint` is returned together with the token. */
export async function join(endpoint: string, token: string, options: JoinOptions = {}): Promise<Participant> {
  const cipher = options.encryption ? await TrackCipher.create(options.encryption) : null;
  const participant = new Participant(options, cipher);
  await participant.start(endpoint, token);
  return participant;
}

export class Participant extends Emitter<ParticipantEvents> {
  identity = "";
  room = { id: "", name: "" };
  /** The same for all participants who agree on keys, unless the server has replaced a key; null while alone. */
  safetyNumber: string | null = null;
  readonly #options: JoinOptions;
  readonly #network = new SimulatedNetwork();
  readonly #cipher: TrackCipher | null;
  readonly #roster: Roster;
  readonly #data: RoomData;
  readonly #media: MediaConnection;
  readonly #published = new Map<string, { track: PublishedTrack; stop(): void }>();
  #session: Session | null = null;
  #sessionId = "";
  #url = "";
  /** The session whose pushes are handled. */
  #joining: Promise<Session> | null = null;

  /** @internal Use `join`. */
  constructor(options: JoinOptions, cipher: TrackCipher | null) {
    super();
    this.#options = options;
    this.#cipher = cipher;
    this.#roster = new Roster(
      (event, ...args) => this.emit(event, ...(args as never)),
      (identity) => this.#cipher?.keys.decryptionOf(identity) ?? "missing-key",
    );
    this.#data = new RoomData({
      encryption: this.#cipher?.data ?? null,
      present: () => [...this.participants.keys()],
      newId: () => crypto.randomUUID(),
      sendBySocket: (frame) => this.#connected.request("data.send", frame),
      onMessage: (message) => this.emit("dataReceived", message),
      onLeftOut: (identity, topic) => this.emit("dataDropped", { messages: 1, reason: "slow_reader", identity, topic }),
      publisherOf: (trackId) => this.#publisherOf(trackId),
      onCaption: (caption) => this.emit("caption", caption),
      onError: (error) => this.emit("error", error instanceof Error ? error : new Error(String(error))),
      fail: (code, message) => new RtcRefused(code, message),
    });
    this.on("participantLeft", ({ identity }) => this.#data.participantLeft(identity));
    if (this.#cipher) {
      this.#cipher.keys.onChanged = () => this.#keysChanged();
      this.#cipher.data.onUnreadable = (identity, reason, messages) =>
        this.emit("dataDropped", { messages, reason, identity });
      this.#agree(this.#cipher);
    }
    this.#media = new MediaConnection({
      network: this.#network,
      data: this.#data,
      cipher: this.#cipher,
      negotiate: (offer) => this.#connected.negotiate(offer),
      onAudio: ({ identity, trackId }, pcm) => this.emit("audio", { identity, trackId, ...pcm }),
      onVideo: ({ identity, trackId }, frame) => this.emit("video", { identity, trackId, ...frame }),
    });
  }

  /** The other participants by identity. */
  get participants(): ReadonlyMap<string, RemoteParticipant> {
    return this.#roster.participants;
  }

  /** @internal */
  async start(endpoint: string, token: string): Promise<void> {
    this.#url = endpoint.replace(/^ws/, "http").replace(/\/v1\/rtc\/?(\?.*)?$/, "");
    this.#session = await this.#join(token);
    await this.#media.connect(this.#wanted());
    // The simulated network starts after the handshake, because it is meant for media.
    if (this.#options.network) this.#network.set(this.#options.network);
  }

  #join(token: string): Promise<Session> {
    const sdk = `stoa-participant ${this.#options.name ?? ""}`.trim();
    const session = Session.join({
      url: this.#url,
      token,
      sdk,
      publicKey: this.#cipher?.agreement?.publicKey,
      // Keys are sent to each participant, so all of them have to be known.
      roster: this.#cipher?.agreement ? "all" : this.#options.roster,
      onLobby: this.#options.onLobby,
      signal: this.#options.signal,
      onPush: (push) => this.#joining === session && this.#receive(push),
      onJoined: (ack, isCurrent) => this.#adopt(ack, isCurrent),
      onLost: () => this.emit("reconnecting"),
      onClosed: (error) => this.#joining === session && this.#ended(error),
    });
    this.#joining = session;
    return session;
  }

  /** Joins the other room before leaving this one. Published tracks continue there. */
  async #move(token: string): Promise<void> {
    const [previous, sessionId] = [this.#session, this.#sessionId];
    const staying = this.#joining;
    this.#sessionId = "";
    try {
      this.#session = await this.#join(token);
    } catch (error) {
      [this.#sessionId, this.#joining] = [sessionId, staying];
      throw error;
    }
    await this.#media.reconnect(this.#wanted());
    this.emit("moved", this.room);
    await previous?.leave();
  }

  /**
   * Publishes PCM samples, a WAV file, or, if ffmpeg is installed, any audio file by its path. Resolves when the server
   * has accepted the track.
   */
  async publishAudio(source: AudioSource | string, { name, ...options }: PublishAudio = {}): Promise<PublishedTrack> {
    const { source: samples, format } = await openAudio(source, options);
    return this.#publish("audio", "microphone", name, undefined, (send) => {
      let timestamp = 0;
      return new AudioSender(samples, format, this.#encryptor("opus"), ({ payload, level }) => {
        // Opus timestamps have 48,000 units a second, at any sample rate.
        timestamp += 960;
        send(payload, false, timestamp, level);
      });
    });
  }

  /** Publishes encoded frames, an IVF file, or, if ffmpeg is installed, a Y4M file by its path. */
  async publishVideo(source: VideoSource | string, options: PublishVideo = {}): Promise<PublishedTrack> {
    const { codec = "VP8", source: what = "camera", name } = options;
    const frames = await openVideo(source);
    return this.#publish(
      "video",
      what,
      name,
      codec,
      (send) =>
        new VideoSender(frames, codec, this.#encryptor(codec), (packet) =>
          send(packet.payload, packet.marker, packet.timestamp),
        ),
    );
  }

  /** Sends text or bytes of at most 64 KB to all or some participants. */
  sendData(payload: string | Uint8Array, options: DataOptions = {}): Promise<void> {
    return this.#data.sendData(payload, options);
  }

  /** Handles the messages of a topic; returns a function that removes the handler. */
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

  /** Handles the streams and files of a topic; returns a function that removes the handler. */
  onStream(topic: string, handler: StreamHandler): () => void {
    return this.#data.streams.onStream(topic, handler);
  }

  /** Asks a participant and resolves with its answer; fails with a `RequestError`. */
  request(identity: string, method: string, payload = "", options: RequestOptions = {}): Promise<string> {
    return this.#data.requests.request(identity, method, payload, options);
  }

  /** Answers the requests of a method; returns a function that removes the handler. */
  onRequest(method: string, handler: RequestHandler): () => void {
    return this.#data.requests.onRequest(method, handler);
  }

  async setMetadata(metadata: string | null): Promise<void> {
    await this.#connected.request("participant.update", { metadata });
  }

  /** Simulates a bad network from now on; without `faults`, a good one. */
  network(faults: NetworkFaults = {}): void {
    this.#network.set(faults);
  }

  /** Drops the connection, which is then restored automatically. */
  simulateReconnect(): void {
    this.#session?.drop();
  }

  /** Leaves the room and stops all published tracks. */
  async close(): Promise<void> {
    this.#release();
    await this.#session?.leave();
    this.emit("closed", null);
    this.removeAllListeners();
  }

  get #connected(): Session {
    if (!this.#session) throw new Error("not in the room yet");
    return this.#session;
  }

  async #publish(
    kind: "audio" | "video",
    source: "microphone" | "camera" | "screenShare",
    name: string | undefined,
    codec: VideoCodec | undefined,
    begin: (send: Awaited<ReturnType<MediaConnection["publish"]>>["send"]) => AudioSender | VideoSender,
  ): Promise<PublishedTrack> {
    const clientTrackId = crypto.randomUUID();
    const encryption = this.#cipher ? { encryption: "gcm" as const } : {};
    const outgoing = await this.#media.publish(
      { clientTrackId, kind, source, ...(name && { name }), ...encryption },
      codec,
    );
    const out = begin(outgoing.send);
    const track: PublishedTrack = {
      id: outgoing.trackId,
      kind,
      done: out.done,
      get late() {
        return out instanceof AudioSender ? out.late : 0;
      },
      mute: async (muted = true) => {
        out.muted = muted;
        await this.#connected.request("track.mute", { trackId: track.id, muted });
      },
      stop: async () => {
        out.stop();
        this.#published.delete(clientTrackId);
        await this.#media.unpublish(clientTrackId);
        await this.#connected.request("track.unpublish", { trackId: track.id }).catch(() => {});
      },
    };
    this.#published.set(clientTrackId, { track, stop: () => out.stop() });
    return track;
  }

  #adopt(ack: JoinAck, isCurrent: boolean): Promise<void> {
    this.identity = ack.participant.identity;
    this.room = ack.room;
    const resumed = ack.mode === "resumed" && ack.sessionId === this.#sessionId;
    const first = this.#sessionId === "";
    this.#sessionId = ack.sessionId;
    this.#cipher?.keys.joined(this.identity);
    this.#roster.adopt(ack.participants, this.identity, resumed && isCurrent);
    this.#data.permit(ack.permissions.publishData);
    if (!resumed) {
      this.#data.newSession();
      this.#cipher?.agreement?.joined(this.identity);
    }
    this.#membersChanged();
    if (first) return Promise.resolve();
    return (resumed ? this.#media.subscribe(this.#wanted()) : this.#media.reconnect(this.#wanted())).then(() => {
      this.emit("reconnected");
    });
  }

  #agree({ agreement, data }: TrackCipher): void {
    agreement?.connect({
      send: (to, message) => this.#data.sendData(message, { to, topic: KEY_TOPIC }),
      onSafetyNumber: (number) => {
        this.safetyNumber = number;
        this.emit("safetyNumberChanged", number);
      },
    });
    data.onKeyMessage = (from, message) => void agreement?.receive(from, message);
  }

  #membersChanged(): void {
    this.#cipher?.agreement?.participantsChanged(this.participants.values());
  }

  #receive(push: Push): void {
    if (push.type === "data") {
      const { from, topic, payload } = push;
      this.#data.receiveFromSocket(from, topic, payload);
      return;
    }
    if (push.type === "room.moved") this.#move(push.token).catch((error) => this.emit("error", error));
    if (push.type === "data.dropped") {
      const { messages, reason, identity } = push;
      this.emit("dataDropped", { messages, reason, ...(identity === undefined ? {} : { identity }) });
    }
    if (push.type === "data.behind") this.#data.readerBehind(push.identity, push.bytes);
    if (push.type === "permissions.changed") this.#data.permit(push.permissions.publishData);
    const isChanged = this.#roster.receive(push);
    if (push.type.startsWith("participant")) this.#membersChanged();
    if (isChanged) this.#media.subscribe(this.#wanted()).catch((error) => this.emit("error", error));
  }

  #publisherOf(trackId: string): string | undefined {
    if ([...this.#published.values()].some(({ track }) => track.id === trackId)) return this.identity;
    return this.#roster.tracks().find((track) => track.trackId === trackId)?.identity;
  }

  #encryptor(codec: string): EncryptFrame {
    return this.#cipher?.encryptor(codec) ?? PLAIN;
  }

  #keysChanged(): void {
    this.#roster.keysChanged();
    if (this.#sessionId !== "") this.#media.subscribe(this.#wanted()).catch((error) => this.emit("error", error));
  }

  #wanted(): SubscribedTrack[] {
    if (this.#options.autoSubscribe === false) return [];
    const kinds = this.#options.receive ?? ["audio", "video"];
    return this.#roster.tracks().filter(({ kind }) => kinds.includes(kind));
  }

  #ended(error: Error | null): void {
    this.#release();
    this.emit("closed", error);
  }

  #release(): void {
    for (const { stop } of this.#published.values()) stop();
    this.#published.clear();
    this.#media.close();
    this.#data.close();
    this.#cipher?.close();
  }
}
