/**
 * `stoa/participant`: somebody in a room without a browser, under Node 20 or later and under Bun. Bots, recorders, and
 * people for tests.
 */
import type { JoinAck, Push } from "../../protocol/signaling.ts";
import { AudioSender } from "./audio-sender.ts";
import { type AudioFormat, type AudioSource, openAudio } from "./audio-source.ts";
import { Emitter } from "./emitter.ts";
import { MediaConnection, type SubscribedTrack } from "./media-connection.ts";
import type {
  DataMessage,
  JoinOptions,
  NetworkFaults,
  ParticipantEvents,
  PublishedTrack,
  RemoteParticipant,
  SendOptions,
} from "./participant-events.ts";
import { Roster } from "./roster.ts";
import { Session } from "./session.ts";
import { SimulatedNetwork } from "./simulated-network.ts";
import { VideoSender } from "./video-sender.ts";
import { openVideo, type VideoCodec, type VideoSource } from "./video-source.ts";

export type { AudioFormat, AudioSource } from "./audio-source.ts";
export { tone } from "./audio-source.ts";
export { bars } from "./bars.ts";
export type * from "./participant-events.ts";
export type { VideoCodec, VideoFrame, VideoSource } from "./video-source.ts";
export { WebSocket } from "./web-socket.ts";

type PublishAudio = Partial<AudioFormat> & { name?: string };
type PublishVideo = { codec?: VideoCodec; source?: "camera" | "screenShare"; name?: string };

/** Joins the room that the token was minted for; `endpoint` comes with the token. */
export async function join(endpoint: string, token: string, options: JoinOptions = {}): Promise<Participant> {
  const participant = new Participant(options);
  await participant.start(endpoint, token);
  return participant;
}

export class Participant extends Emitter<ParticipantEvents> {
  identity = "";
  room = { id: "", name: "" };
  readonly #options: JoinOptions;
  readonly #network = new SimulatedNetwork();
  readonly #roster = new Roster((event, ...args) => this.emit(event, ...(args as never)));
  readonly #media: MediaConnection;
  readonly #published = new Map<string, { track: PublishedTrack; stop(): void }>();
  #session: Session | null = null;
  #sessionId = "";

  /** @internal Use `join`. */
  constructor(options: JoinOptions) {
    super();
    this.#options = options;
    this.#media = new MediaConnection({
      network: this.#network,
      negotiate: (offer) => this.#connected.negotiate(offer),
      onAudio: ({ identity, trackId }, pcm) => this.emit("audio", { identity, trackId, ...pcm }),
      onVideo: ({ identity, trackId }, frame) => this.emit("video", { identity, trackId, ...frame }),
    });
  }

  /** Everyone else, by identity. */
  get participants(): ReadonlyMap<string, RemoteParticipant> {
    return this.#roster.participants;
  }

  /** @internal */
  async start(endpoint: string, token: string): Promise<void> {
    const url = endpoint.replace(/^ws/, "http").replace(/\/v1\/rtc\/?(\?.*)?$/, "");
    const sdk = `stoa-participant ${this.#options.name ?? ""}`.trim();
    this.#session = await Session.join({
      ...{ url, token, sdk },
      onPush: (push) => this.#receive(push),
      onJoined: (ack) => this.#adopt(ack),
      onLost: () => this.emit("reconnecting"),
      onClosed: (error) => this.#ended(error),
    });
    await this.#media.connect(this.#wanted());
    // From here on: a handshake has timers of its own, and what is to be seen is how media fares.
    if (this.#options.network) this.#network.set(this.#options.network);
  }

  /** PCM as it comes, or the path of a WAV file, or of any other where ffmpeg is installed. Resolves when the server has taken the track. */
  async publishAudio(source: AudioSource | string, { name, ...given }: PublishAudio = {}): Promise<PublishedTrack> {
    const { source: samples, format } = await openAudio(source, given);
    return this.#publish("audio", "microphone", name, undefined, (send) => {
      let timestamp = 0;
      return new AudioSender(samples, format, ({ payload, level }) => {
        // Opus counts 48,000 a second, whatever it was given.
        timestamp += 960;
        send(payload, false, timestamp, level);
      });
    });
  }

  /** Encoded frames as they come, or the path of an IVF file, or of a Y4M file where ffmpeg is installed. */
  async publishVideo(source: VideoSource | string, options: PublishVideo = {}): Promise<PublishedTrack> {
    const { codec = "VP8", source: what = "camera", name } = options;
    const frames = await openVideo(source);
    return this.#publish(
      "video",
      what,
      name,
      codec,
      (send) => new VideoSender(frames, codec, (packet) => send(packet.payload, packet.marker, packet.timestamp)),
    );
  }

  /** Text to everyone, or to some; at most 8 KB. */
  async sendData(payload: string, options: SendOptions = {}): Promise<void> {
    await this.#connected.request("data.send", { payload, ...options });
  }

  async setMetadata(metadata: string | null): Promise<void> {
    await this.#connected.request("participant.update", { metadata });
  }

  /** From now on the way to the server is as bad as this; nothing given cures it. */
  network(faults: NetworkFaults = {}): void {
    this.#network.set(faults);
  }

  /** Loses the connection on purpose; it comes back by itself. */
  simulateReconnect(): void {
    this.#session?.drop();
  }

  /** Leaves, and stops everything that was published. */
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
    const outgoing = await this.#media.publish({ clientTrackId, kind, source, ...(name && { name }) }, codec);
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

  #adopt(ack: JoinAck): Promise<void> {
    this.identity = ack.participant.identity;
    this.room = ack.room;
    const resumed = ack.mode === "resumed" && ack.sessionId === this.#sessionId;
    const first = this.#sessionId === "";
    this.#sessionId = ack.sessionId;
    this.#roster.adopt(ack.participants, this.identity, resumed);
    if (first) return Promise.resolve();
    return (resumed ? this.#media.subscribe(this.#wanted()) : this.#media.reconnect(this.#wanted())).then(() => {
      this.emit("reconnected");
    });
  }

  #receive(push: Push): void {
    if (push.type === "data") {
      const { from, topic, payload } = push;
      this.emit("dataReceived", { from, payload, ...(topic !== undefined && { topic }) } satisfies DataMessage);
      return;
    }
    if (this.#roster.receive(push)) this.#media.subscribe(this.#wanted()).catch((error) => this.emit("error", error));
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
  }
}
