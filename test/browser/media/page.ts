/** The client of these tests, in a real browser: one peer connection that always offers, and nothing of the SDK. */
import type { MediaEvent, NegotiateAnswer } from "../../../src/media/node.ts";
import type { SubscriptionChange } from "../../../src/protocol/signaling.ts";
import { type Flow, watchFlow } from "./flow.ts";

type Published = {
  transceiver: RTCRtpTransceiver;
  clientTrackId: string;
  kind: "audio" | "video";
  source: string;
  active: boolean;
};

export type PublishOptions = {
  video?: {
    width: number;
    height: number;
    frameRate?: number;
    layers?: number;
    codec?: string;
    maxBitrate?: number;
  } | null;
  audio?: boolean;
};

class Page {
  readonly pc = new RTCPeerConnection({ bundlePolicy: "max-bundle" });
  readonly events: MediaEvent[] = [];
  readonly received: Record<string, string[]> = { reliable: [], lossy: [] };
  readonly #socket: WebSocket;
  readonly #pending = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
  #nextId = 1;
  readonly #published: Published[] = [];
  /** mid → track. */
  readonly subscribed = new Map<string, string>();
  readonly #waiters = new Set<() => void>();
  readonly channels: Record<string, RTCDataChannel> = {};
  trackIds: Record<string, string> = {};
  /** Ends what `watch` began. */
  stopWatching: () => Flow = () => {
    throw new Error("nothing is watched");
  };

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.onmessage = ({ data }) => {
      const message = JSON.parse(data);
      if (message.event) {
        this.events.push(message.event);
        for (const wake of this.#waiters) wake();
        return;
      }
      const pending = this.#pending.get(message.id);
      this.#pending.delete(message.id);
      if (message.error) pending?.reject(new Error(message.error));
      else pending?.resolve(message.response);
    };
  }

  call<T>(method: string, request: object = {}): Promise<T> {
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve: (value) => resolve(value as T), reject });
      this.#socket.send(JSON.stringify({ id, method, request }));
    });
  }

  async publish(options: PublishOptions, source = "camera"): Promise<string[]> {
    const { width, height, frameRate = 15 } = options.video ?? { width: 640, height: 360 };
    const stream = await navigator.mediaDevices.getUserMedia({
      audio: options.audio ?? false,
      video: options.video ? { width, height, frameRate } : false,
    });
    const ids: string[] = [];
    for (const track of stream.getTracks()) {
      const kind = track.kind as "audio" | "video";
      const clientTrackId = `${source}-${kind}-${this.#published.length}`;
      const idle = this.#published.find((p) => p.kind === kind && !p.active && (options.video?.layers ?? 1) === 1);
      if (idle) {
        await idle.transceiver.sender.replaceTrack(track);
        Object.assign(idle, { clientTrackId, source: kind === "audio" ? "microphone" : source, active: true });
      } else {
        const transceiver = this.pc.addTransceiver(track, {
          direction: "sendonly",
          streams: [stream],
          sendEncodings:
            kind === "video" ? encodings(options.video?.layers ?? 1, frameRate, options.video?.maxBitrate) : [{}],
        });
        if (kind === "video" && options.video?.codec) prefer(transceiver, options.video.codec);
        this.#published.push({
          transceiver,
          clientTrackId,
          kind,
          source: kind === "audio" ? "microphone" : source,
          active: true,
        });
      }
      ids.push(clientTrackId);
    }
    return ids;
  }

  async unpublish(clientTrackId: string): Promise<void> {
    const published = this.#published.find((p) => p.clientTrackId === clientTrackId);
    if (!published) throw new Error("not published");
    published.active = false;
    await published.transceiver.sender.replaceTrack(null);
    await this.call("unpublish", { trackId: this.trackIds[clientTrackId] });
  }

  receive(audio: number, video: number): void {
    for (let i = 0; i < Math.max(audio, video); i++) {
      if (i < audio) this.#addReceiver("audio");
      if (i < video) this.#addReceiver("video");
    }
  }

  #addReceiver(kind: "audio" | "video"): void {
    const transceiver = this.pc.addTransceiver(kind, { direction: "recvonly" });
    const element = document.createElement(kind);
    element.autoplay = true;
    element.muted = kind === "video";
    element.srcObject = new MediaStream([transceiver.receiver.track]);
    document.body.append(element);
  }

  openChannels(): void {
    this.channels.reliable = this.pc.createDataChannel("reliable");
    this.channels.lossy = this.pc.createDataChannel("lossy", { ordered: false, maxRetransmits: 0 });
    for (const [name, channel] of Object.entries(this.channels)) {
      channel.onmessage = ({ data }) => {
        this.received[name]?.push(data);
        for (const wake of this.#waiters) wake();
      };
      channel.onopen = () => {
        for (const wake of this.#waiters) wake();
      };
    }
  }

  async negotiate(options: { iceRestart?: boolean } = {}): Promise<NegotiateAnswer> {
    const offer = await this.pc.createOffer({ iceRestart: options.iceRestart ?? false });
    await this.pc.setLocalDescription(offer);
    const publish = this.#published
      .filter((p) => p.active)
      .map(({ transceiver, clientTrackId, kind, source }) => ({ mid: transceiver.mid, clientTrackId, kind, source }));
    const subscribe = [...this.subscribed].map(([mid, trackId]) => ({ mid, trackId }));
    const answer = await this.call<NegotiateAnswer>("negotiate", { sdp: offer.sdp, publish, subscribe, ...options });
    await this.pc.setRemoteDescription({ type: "answer", sdp: answer.sdp });
    for (const { clientTrackId, trackId } of answer.tracks) this.trackIds[clientTrackId] = trackId;
    return answer;
  }

  receivers(kind: "audio" | "video"): RTCRtpTransceiver[] {
    return this.pc.getTransceivers().filter((t) => t.direction === "recvonly" && t.receiver.track.kind === kind);
  }

  /** Puts a track on a free section. */
  async subscribe(trackId: string, kind: "audio" | "video", wish: object = {}): Promise<string> {
    const free = this.receivers(kind).find((t) => t.mid !== null && !this.subscribed.has(t.mid));
    if (!free?.mid) throw new Error(`no free ${kind} section`);
    this.subscribed.set(free.mid, trackId);
    await this.call("updateSubscriptions", { tracks: [{ trackId, mid: free.mid, ...wish }] });
    return free.mid;
  }

  async updateSubscription(change: SubscriptionChange): Promise<void> {
    if (change.mid === null)
      for (const [mid, trackId] of this.subscribed) if (trackId === change.trackId) this.subscribed.delete(mid);
    await this.call("updateSubscriptions", { tracks: [change] });
  }

  async inbound(mid: string): Promise<Record<string, number>> {
    const stats = await this.pc.getStats();
    for (const report of stats.values()) if (report.type === "inbound-rtp" && report.mid === mid) return report;
    return {};
  }

  async outbound(): Promise<Record<string, number | string>[]> {
    const stats = await this.pc.getStats();
    return [...stats.values()].filter((report) => report.type === "outbound-rtp");
  }

  /** Counts frames from now on: those shown on a section, or those sent. */
  watch(mid: string | null): void {
    this.stopWatching = watchFlow(async () => {
      if (mid !== null) return (await this.inbound(mid)).framesDecoded ?? 0;
      const sent = await this.outbound();
      return sent.reduce((sum, { framesSent }) => sum + Number(framesSent ?? 0), 0);
    });
  }

  /** Resolves with the value of `check` once it is neither false nor undefined. */
  async until<T>(
    check: () => Promise<T | false | undefined> | T | false | undefined,
    what: string,
    timeoutMs = 10_000,
  ): Promise<T> {
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      const value = await check();
      if (value !== false && value !== undefined) return value;
      if (performance.now() > deadline) throw new Error(`timed out waiting for ${what}`);
      await new Promise<void>((resolve) => {
        const wake = () => {
          this.#waiters.delete(wake);
          clearTimeout(timer);
          resolve();
        };
        const timer = setTimeout(wake, 50);
        this.#waiters.add(wake);
      });
    }
  }

  event<T extends MediaEvent["type"]>(
    type: T,
    matches: (event: Extract<MediaEvent, { type: T }>) => boolean = () => true,
    timeoutMs?: number,
  ) {
    return this.until(
      () =>
        this.events.find(
          (e): e is Extract<MediaEvent, { type: T }> =>
            e.type === type && matches(e as Extract<MediaEvent, { type: T }>),
        ),
      type,
      timeoutMs,
    );
  }

  connected(): Promise<true> {
    return this.until(() => (this.pc.connectionState === "connected" ? true : undefined), "connected");
  }

  decoding(mid: string, frames = 10, timeoutMs = 15_000): Promise<Record<string, number>> {
    return this.until(
      async () => {
        const stats = await this.inbound(mid);
        return (stats.framesDecoded ?? 0) >= frames ? stats : undefined;
      },
      `${frames} frames on ${mid}`,
      timeoutMs,
    );
  }
}

/** Low to high; a browser sends three layers only from 960×540 up. */
function encodings(layers: number, maxFramerate: number, maxBitrate?: number): RTCRtpEncodingParameters[] {
  if (layers === 1) return [{ maxFramerate, ...(maxBitrate ? { maxBitrate } : {}) }];
  const rids = ["q", "h", "f"].slice(0, layers);
  const bitrates = [150_000, 500_000, 1_700_000];
  return rids.map((rid, i) => ({
    rid,
    scaleResolutionDownBy: 2 ** (layers - 1 - i),
    maxBitrate: bitrates[i + 3 - layers] ?? 1_000_000,
    maxFramerate,
  }));
}

function prefer(transceiver: RTCRtpTransceiver, name: string): void {
  const { codecs = [] } = RTCRtpReceiver.getCapabilities("video") ?? {};
  const rest = codecs.filter(
    (codec) => codec.mimeType.toLowerCase() === `video/${name.toLowerCase()}` || codec.mimeType === "video/rtx",
  );
  transceiver.setCodecPreferences(rest);
}

declare global {
  interface Window {
    join(query: string): Promise<void>;
    page: Page;
  }
}

window.join = (query) =>
  new Promise((resolve, reject) => {
    const socket = new WebSocket(`ws://${location.host}/bridge?${query}`);
    socket.onerror = () => reject(new Error("bridge"));
    socket.onopen = () => {
      window.page = new Page(socket);
      resolve();
    };
  });
