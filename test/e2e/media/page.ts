/** A client of a media node in a browser without the SDK: one peer connection that always offers. */
import type { MediaEvent, NegotiateAnswer } from "../../../src/protocol/media-node.ts";
import { type Flow, watchFlow } from "./flow.ts";
import { addReceiver, encodings, inbound, until, type VideoOptions } from "./page-media.ts";

type Published = { transceiver: RTCRtpTransceiver; clientTrackId: string };

class Page {
  readonly pc = new RTCPeerConnection({ bundlePolicy: "max-bundle" });
  readonly events: MediaEvent[] = [];
  readonly #socket: WebSocket;
  readonly #pending = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
  #nextId = 1;
  readonly #published: Published[] = [];
  /** Track ids by mid. */
  readonly #subscribed = new Map<string, string>();
  /** Stops the measurement that `watch` has started. */
  stopWatching: () => Flow = () => {
    throw new Error("no measurement is running");
  };

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.onmessage = ({ data }) => {
      const message = JSON.parse(data);
      if (message.event) {
        this.events.push(message.event);
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

  async publish(video: VideoOptions): Promise<void> {
    const { width, height, frameRate = 15 } = video;
    const stream = await navigator.mediaDevices.getUserMedia({ video: { width, height, frameRate } });
    for (const track of stream.getTracks()) {
      const sendEncodings = encodings(video);
      const transceiver = this.pc.addTransceiver(track, { direction: "sendonly", streams: [stream], sendEncodings });
      this.#published.push({ transceiver, clientTrackId: track.id });
    }
  }

  /** Adds a section for one video. */
  receive(): void {
    addReceiver(this.pc, "video");
  }

  async negotiate(): Promise<void> {
    const { sdp } = await this.pc.createOffer();
    await this.pc.setLocalDescription({ type: "offer", sdp });
    const publish = this.#published.map(({ transceiver, clientTrackId }) => ({
      mid: transceiver.mid,
      clientTrackId,
      kind: "video",
      source: "camera",
    }));
    const subscribe = [...this.#subscribed].map(([mid, trackId]) => ({ mid, trackId }));
    const answer = await this.call<NegotiateAnswer>("negotiate", { sdp, publish, subscribe });
    await this.pc.setRemoteDescription({ type: "answer", sdp: answer.sdp });
  }

  /** Subscribes to a track on a free section. */
  async subscribe(trackId: string): Promise<string> {
    const free = this.pc
      .getTransceivers()
      .find(({ direction, mid }) => direction === "recvonly" && mid !== null && !this.#subscribed.has(mid));
    if (!free?.mid) throw new Error("no free section");
    this.#subscribed.set(free.mid, trackId);
    await this.call("updateSubscriptions", { tracks: [{ trackId, mid: free.mid }] });
    return free.mid;
  }

  inbound(mid: string): Promise<Record<string, number>> {
    return inbound(this.pc, mid);
  }

  /** Starts to count the frames shown on a section, or the sent ones. */
  watch(mid: string | null): void {
    this.stopWatching = watchFlow(async () => {
      if (mid !== null) return (await this.inbound(mid)).framesDecoded ?? 0;
      const sent = [...(await this.pc.getStats()).values()].filter(({ type }) => type === "outbound-rtp");
      return sent.reduce((sum, { framesSent }) => sum + Number(framesSent ?? 0), 0);
    });
  }

  event<T extends MediaEvent["type"]>(type: T) {
    const isIt = (event: MediaEvent): event is Extract<MediaEvent, { type: T }> => event.type === type;
    return until(() => this.events.find(isIt), type);
  }

  connected(): Promise<true> {
    return until(() => this.pc.connectionState === "connected" || undefined, "connected");
  }

  decoding(mid: string, frames = 10): Promise<Record<string, number>> {
    return until(async () => {
      const stats = await this.inbound(mid);
      return (stats.framesDecoded ?? 0) >= frames ? stats : undefined;
    }, `${frames} frames on ${mid}`);
  }
}

declare global {
  interface Window {
    join(query: string): Promise<void>;
    page: Page;
    until: typeof until;
  }
}

window.until = until;
window.join = (query) =>
  new Promise((resolve, reject) => {
    const socket = new WebSocket(`ws://${location.host}/bridge?${query}`);
    socket.onerror = () => reject(new Error("bridge"));
    socket.onopen = () => {
      window.page = new Page(socket);
      resolve();
    };
  });
