/** A minimal client of the RTC protocol in a browser, without the SDK. */
import type { SubscriptionChange } from "../../../src/protocol/signaling.ts";
import { type Flow, watchFlow } from "./flow.ts";
import { addReceiver, canvasTrack, encodings, inbound, prefer, until, type VideoOptions } from "./page-media.ts";
import { RtcSocket } from "./rtc-socket.ts";
import { packed, plain } from "./sdp-field.ts";
import { timedJoin } from "./timed-join.ts";
import { whip } from "./whip-page.ts";

export type Kind = "audio" | "video";
export type Source = "microphone" | "camera" | "screenShare";
export type PublishOptions = { audio?: boolean; video?: VideoOptions | null };
type SubscriptionSettings = Pick<SubscriptionChange, "layer" | "maxHeight" | "paused">;

const CAMERA: VideoOptions = { width: 640, height: 360, frameRate: 15 };
const SCREEN: VideoOptions = { width: 320, height: 180, frameRate: 15 };

type Published = {
  transceiver: RTCRtpTransceiver;
  clientTrackId: string;
  kind: Kind;
  source: Source;
};

export class RtcPage extends RtcSocket {
  readonly pc = new RTCPeerConnection({ bundlePolicy: "max-bundle" });
  /** Mids by track id. */
  readonly subscribed = new Map<string, string>();
  readonly channels: Partial<Record<"reliable" | "lossy", RTCDataChannel>> = {};
  /** The received messages. */
  readonly received = { reliable: [] as string[], lossy: [] as string[] };
  readonly #published: Published[] = [];
  readonly #trackIds = new Map<string, string>();

  async publish({ audio = true, video = CAMERA }: PublishOptions = {}): Promise<void> {
    const { width, height, frameRate = 15 } = video ?? CAMERA;
    const stream = await navigator.mediaDevices.getUserMedia({
      audio,
      video: video ? { width, height, frameRate } : false,
    });
    for (const track of stream.getTracks()) {
      if (track.kind === "audio" || !video) this.#send(track, "microphone", [{}], stream);
      else {
        const transceiver = this.#send(track, "camera", encodings(video), stream);
        if (video.codec) prefer(transceiver, video.codec);
      }
    }
  }

  /** A canvas instead of a camera, in any size. On a busy machine it drops frames instead of resolution. */
  async publishDrawn(video: VideoOptions): Promise<void> {
    const { sender } = this.#send(canvasTrack(video), "camera", encodings(video));
    await sender.setParameters({ ...sender.getParameters(), degradationPreference: "maintain-resolution" });
  }

  /** Publishes a third track beside camera and microphone, on a free section if there is one. */
  async shareScreen(): Promise<void> {
    const track = canvasTrack(SCREEN);
    const taken = this.#published.map(({ transceiver }) => transceiver);
    const idle = this.pc
      .getTransceivers()
      .find((one) => one.direction === "sendonly" && one.receiver.track.kind === "video" && !taken.includes(one));
    if (!idle) {
      this.#send(track, "screenShare", [{}]);
      return;
    }
    await idle.sender.replaceTrack(track);
    this.#published.push({ transceiver: idle, clientTrackId: track.id, kind: "video", source: "screenShare" });
  }

  #send(
    track: MediaStreamTrack,
    source: Source,
    sendEncodings: RTCRtpEncodingParameters[],
    ...streams: MediaStream[]
  ): RTCRtpTransceiver {
    const transceiver = this.pc.addTransceiver(track, { direction: "sendonly", sendEncodings, streams });
    this.#published.push({ transceiver, clientTrackId: track.id, kind: track.kind as Kind, source });
    return transceiver;
  }

  async unpublish(source: Source): Promise<void> {
    const at = this.#published.findIndex((one) => one.source === source);
    const [gone] = this.#published.splice(at, 1);
    if (at < 0 || !gone) throw new Error(`${source} is not published`);
    gone.transceiver.sender.track?.stop();
    await gone.transceiver.sender.replaceTrack(null);
    await this.ask("track.unpublish", { trackId: this.#trackIds.get(gone.clientTrackId) });
  }

  /** The id of a published track on the server. */
  trackId(source: Source): string {
    const { clientTrackId = "" } = this.#published.find((one) => one.source === source) ?? {};
    const trackId = this.#trackIds.get(clientTrackId);
    if (trackId === undefined) throw new Error(`${source} is not published`);
    return trackId;
  }

  receive(pairs: number): void {
    for (let pair = 0; pair < pairs; pair++) for (const kind of ["audio", "video"] as const) addReceiver(this.pc, kind);
  }

  openChannels(): void {
    this.channels.reliable = this.pc.createDataChannel("reliable");
    this.channels.lossy = this.pc.createDataChannel("lossy", { ordered: false, maxRetransmits: 0 });
    for (const name of ["reliable", "lossy"] as const) {
      const channel = this.channels[name];
      if (channel) channel.onmessage = ({ data }) => this.received[name].push(data);
    }
  }

  /** Subscribes to the known tracks of `watch` in the offer itself. */
  async offer({ watch = [], ...options }: { iceRestart?: boolean; watch?: string[] } = {}): Promise<void> {
    await this.pc.setLocalDescription(await this.pc.createOffer(options));
    this.onStage("offered");
    for (const identity of watch) {
      for (const kind of ["audio", "video"] as const) {
        const track = this.#trackOf(identity, kind);
        if (track) this.#place(track.id, kind);
      }
    }
    const answer = await this.ask("media.offer", {
      ...(await packed(String(this.pc.localDescription?.sdp))),
      ...options,
      publish: this.#published.map(({ transceiver, ...section }) => ({ mid: transceiver.mid, ...section })),
      subscribe: [...this.subscribed].map(([trackId, mid]) => ({ mid, trackId })),
    });
    this.onStage("answered");
    for (const { clientTrackId, trackId } of answer.tracks as { clientTrackId: string; trackId: string }[])
      this.#trackIds.set(clientTrackId, trackId);
    await this.pc.setRemoteDescription({ type: "answer", sdp: await plain(answer) });
  }

  /** Waits for both tracks of a participant and subscribes to them on free sections. */
  async watch(identity: string): Promise<{ audio: string; video: string }> {
    const mids = { audio: "", video: "" };
    for (const kind of ["audio", "video"] as const) mids[kind] = (await this.watchTrack(identity, kind)).mid;
    return mids;
  }

  /** Subscribes to one track of a participant, on its section or a free one. */
  async watchTrack(identity: string, kind: Kind, source?: Source): Promise<{ mid: string; trackId: string }> {
    const { id } = await until(() => this.#trackOf(identity, kind, source), `${source ?? kind} of ${identity}`);
    return { mid: this.subscribed.get(id) ?? (await this.subscribe(id, kind)), trackId: id };
  }

  /** Subscribes to a track on a free section. */
  async subscribe(trackId: string, kind: Kind): Promise<string> {
    const mid = this.#place(trackId, kind);
    await this.ask("subscription.update", { tracks: [{ trackId, mid }] });
    return mid;
  }

  async wish(trackId: string, wish: SubscriptionSettings): Promise<void> {
    await this.ask("subscription.update", { tracks: [{ trackId, mid: this.subscribed.get(trackId), ...wish }] });
  }

  #place(trackId: string, kind: Kind): string {
    for (const { type, trackId: gone } of this.pushes)
      if (type === "track.unpublished") this.subscribed.delete(String(gone));
    const taken = [...this.subscribed.values()];
    const free = this.pc
      .getTransceivers()
      .find((t) => t.direction === "recvonly" && t.receiver.track.kind === kind && !taken.includes(String(t.mid)));
    if (!free?.mid) throw new Error(`no free ${kind} section`);
    this.subscribed.set(trackId, free.mid);
    return free.mid;
  }

  #trackOf(identity: string, kind: Kind, source = kind === "audio" ? "microphone" : "camera") {
    return this.tracksOf(identity).find((track) => track.kind === kind && track.source === source);
  }

  inbound(mid: string): Promise<Record<string, number>> {
    return inbound(this.pc, mid);
  }

  async outbound(): Promise<Record<string, number | string>[]> {
    return [...(await this.pc.getStats()).values()].filter(
      (one) => one.type === "outbound-rtp" && one.kind === "video",
    );
  }

  decoded(mid: string, frames: number): Promise<Record<string, number>> {
    return until(async () => {
      const report = await this.inbound(mid);
      return (report.framesDecoded ?? 0) >= frames ? report : undefined;
    }, `${frames} frames on ${mid}`);
  }

  /** Resolves after this number of frames. */
  async moreFrames(mid: string, frames: number): Promise<Record<string, number>> {
    return this.decoded(mid, ((await this.inbound(mid)).framesDecoded ?? 0) + frames);
  }

  /** Starts to count the frames shown on a section or sent; returns a function that ends it. */
  countFrames(mid: string | null): () => Flow {
    return watchFlow(async () => {
      if (mid !== null) return (await this.inbound(mid)).framesDecoded ?? 0;
      return (await this.outbound()).reduce((sum, { framesSent }) => sum + Number(framesSent ?? 0), 0);
    });
  }

  /** Resolves when nothing has arrived on a section for half a second. */
  silent(mid: string): Promise<true> {
    return until(async () => {
      const { packetsReceived: before } = await this.inbound(mid);
      await new Promise((wake) => setTimeout(wake, 500));
      return (await this.inbound(mid)).packetsReceived === before || undefined;
    }, `silence on ${mid}`);
  }

  heard(mid: string): Promise<number> {
    return until(async () => (await this.inbound(mid)).totalAudioEnergy || undefined, "sound");
  }

  /** Stops cameras, canvases and the connection. The server closes the socket. */
  end(): void {
    for (const { transceiver } of this.#published) transceiver.sender.track?.stop();
    this.pc.close();
    for (const element of document.querySelectorAll("video, audio")) element.remove();
  }
}

declare global {
  interface Window {
    rtc: RtcPage;
    /** Replaces the current client, which is ended, with another. */
    openRtc(): RtcPage;
    whip(url: string, token: string, kind: "whip" | "whep"): Promise<string>;
    until: typeof until;
    timedJoin(url: string, token: string, identity: string): ReturnType<typeof timedJoin>;
  }
}

window.openRtc = () => {
  window.rtc?.end();
  window.rtc = new RtcPage();
  return window.rtc;
};
window.until = until;
window.whip = (...request) => whip(window.openRtc(), ...request);
window.timedJoin = (url, token, identity) => timedJoin(new RtcPage(), url, token, identity);
