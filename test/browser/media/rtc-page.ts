/** The smallest client of the RTC socket, in a real browser: what the protocol says, and nothing of the SDK. */
import { type Flow, watchFlow } from "./flow.ts";
import { timedJoin } from "./timed-join.ts";

type Frame = { type: string; id?: string; seq?: number; [field: string]: unknown };
type Joined = Frame & { mode: string; sessionId: string; resumeToken: string; seq: number; participants: Listed[] };
type Listed = { identity: string; tracks: { id: string; kind: string }[] };

export class RtcPage {
  readonly pc = new RTCPeerConnection({ bundlePolicy: "max-bundle" });
  readonly pushes: Frame[] = [];
  readonly connectionId = crypto.randomUUID();
  readonly subscribed = new Map<string, string>();
  /** Called as the steps of a join are done. */
  onStage: (stage: "opened" | "joined" | "offered" | "answered") => void = () => {};
  closed: { code: number; reason: string } | null = null;
  joined: Joined | null = null;
  #socket: WebSocket | null = null;
  #requests = 0;
  #hungUp: Promise<Frame> = new Promise(() => {});
  readonly #waiting = new Map<string, (frame: Frame) => void>();
  readonly #published: { transceiver: RTCRtpTransceiver; clientTrackId: string; kind: string; source: string }[] = [];

  get lastSeq(): number {
    return Number(this.pushes.at(-1)?.seq ?? 0);
  }

  /** Opens the socket and joins, or resumes with what the last join gave. */
  async join(url: string, token: string, { resume = false } = {}): Promise<Joined> {
    const socket = new WebSocket(url, ["stoa", `token.${token}`]);
    this.#socket = socket;
    this.closed = null;
    this.#hungUp = new Promise((resolve) => {
      socket.onclose = ({ code, reason }) => {
        if (this.#socket === socket) this.closed = { code, reason };
        resolve({ type: "error", code: `closed ${code}`, message: reason });
      };
    });
    socket.onmessage = ({ data }) => {
      const frame = JSON.parse(data) as Frame;
      if (frame.type === "ack" || frame.type === "error") this.#waiting.get(String(frame.id))?.(frame);
      else this.pushes.push(frame);
    };
    await new Promise((resolve) => {
      socket.onopen = resolve;
    });
    this.onStage("opened");
    const { sessionId, resumeToken } = this.joined ?? {};
    const fields = resume ? { resume: { sessionId, resumeToken, lastSeq: this.lastSeq } } : {};
    this.joined = (await this.ask("room.join", { connectionId: this.connectionId, sdk: "test", ...fields })) as Joined;
    this.onStage("joined");
    return this.joined;
  }

  /** The network takes the socket, and nobody said goodbye. */
  cut(): void {
    this.#socket?.close();
  }

  async ask(type: string, fields: object = {}): Promise<Frame> {
    const id = `r${++this.#requests}`;
    const answer = new Promise<Frame>((resolve) => this.#waiting.set(id, resolve));
    this.#socket?.send(JSON.stringify({ type, id, ...fields }));
    const frame = await Promise.race([answer, this.#hungUp]);
    if (frame.type === "error") throw new Error(`${frame.code}: ${frame.message}`);
    return frame;
  }

  async publish(): Promise<void> {
    const video = { width: 640, height: 360, frameRate: 15 };
    const stream = await navigator.mediaDevices.getUserMedia({ audio: true, video });
    for (const track of stream.getTracks()) {
      const transceiver = this.pc.addTransceiver(track, { direction: "sendonly", streams: [stream] });
      const source = track.kind === "audio" ? "microphone" : "camera";
      this.#published.push({ transceiver, clientTrackId: track.id, kind: track.kind, source });
    }
  }

  /** A third track beside camera and microphone; a canvas, because nobody is there to choose a screen. */
  async shareScreen(): Promise<void> {
    const canvas = Object.assign(document.createElement("canvas"), { width: 320, height: 180 });
    const context = canvas.getContext("2d");
    let hue = 0;
    setInterval(() => {
      if (!context) return;
      hue += 7;
      context.fillStyle = `hsl(${hue} 80% 50%)`;
      context.fillRect(0, 0, 320, 180);
    }, 66);
    const [track] = canvas.captureStream(15).getVideoTracks();
    if (!track) throw new Error("no picture");
    const transceiver = this.pc.addTransceiver(track, { direction: "sendonly" });
    this.#published.push({ transceiver, clientTrackId: track.id, kind: "video", source: "screenShare" });
  }

  receive(pairs: number): void {
    for (let pair = 0; pair < pairs; pair++) {
      for (const kind of ["audio", "video"] as const) {
        const { receiver } = this.pc.addTransceiver(kind, { direction: "recvonly" });
        const element = document.createElement(kind);
        element.autoplay = true;
        element.muted = kind === "video";
        element.srcObject = new MediaStream([receiver.track]);
        document.body.append(element);
      }
    }
  }

  /** Those to `watch` are subscribed to with the offer itself; their tracks have to be known. */
  async offer({ watch = [], ...options }: { iceRestart?: boolean; watch?: string[] } = {}): Promise<void> {
    await this.pc.setLocalDescription(await this.pc.createOffer(options));
    this.onStage("offered");
    for (const identity of watch) {
      for (const kind of ["audio", "video"] as const) {
        const trackId = this.#trackOf(identity, kind);
        if (trackId !== undefined) this.#place(trackId, kind);
      }
    }
    const answer = await this.ask("media.offer", {
      ...(await packed(String(this.pc.localDescription?.sdp))),
      ...options,
      publish: this.#published.map(({ transceiver, ...section }) => ({ mid: transceiver.mid, ...section })),
      subscribe: [...this.subscribed].map(([trackId, mid]) => ({ mid, trackId })),
    });
    this.onStage("answered");
    await this.pc.setRemoteDescription({ type: "answer", sdp: await plain(answer) });
  }

  /** Puts both tracks of somebody on free sections, once they are known. */
  async watch(identity: string): Promise<{ audio: string; video: string }> {
    const mids = { audio: "", video: "" };
    for (const kind of ["audio", "video"] as const) {
      const trackId = await until(() => this.#trackOf(identity, kind), `${kind} of ${identity}`);
      const known = this.subscribed.get(trackId);
      if (known !== undefined) {
        mids[kind] = known;
        continue;
      }
      const mid = this.#place(trackId, kind);
      await this.ask("subscription.update", { tracks: [{ trackId, mid }] });
      mids[kind] = mid;
    }
    return mids;
  }

  #place(trackId: string, kind: "audio" | "video"): string {
    const taken = [...this.subscribed.values()];
    const free = this.pc
      .getTransceivers()
      .find((t) => t.direction === "recvonly" && t.receiver.track.kind === kind && !taken.includes(String(t.mid)));
    const mid = String(free?.mid);
    this.subscribed.set(trackId, mid);
    return mid;
  }

  #trackOf(identity: string, kind: string): string | undefined {
    const listed = this.joined?.participants.find((one) => one.identity === identity)?.tracks ?? [];
    const pushed = this.pushes
      .filter((push) => push.type === "track.published" && push.identity === identity)
      .map((push) => push.track as { id: string; kind: string });
    return [...pushed.reverse(), ...listed].find((track) => track.kind === kind)?.id;
  }

  async inbound(mid: string): Promise<Record<string, number>> {
    for (const report of (await this.pc.getStats()).values()) {
      if (report.type === "inbound-rtp" && report.mid === mid) return report;
    }
    return {};
  }

  decoded(mid: string, frames: number): Promise<Record<string, number>> {
    return until(async () => {
      const report = await this.inbound(mid);
      return (report.framesDecoded ?? 0) >= frames ? report : undefined;
    }, `${frames} frames on ${mid}`);
  }

  /** Counts frames from now on, those shown on a section or those sent; what is returned ends it. */
  countFrames(mid: string | null): () => Flow {
    return watchFlow(async () => {
      if (mid !== null) return (await this.inbound(mid)).framesDecoded ?? 0;
      let frames = 0;
      for (const report of (await this.pc.getStats()).values())
        if (report.type === "outbound-rtp" && report.kind === "video") frames += report.framesSent ?? 0;
      return frames;
    });
  }

  heard(mid: string): Promise<number> {
    return until(async () => (await this.inbound(mid)).totalAudioEnergy || undefined, "sound");
  }

  push(type: string, matches: Record<string, unknown> = {}): Promise<Frame> {
    const fits = (push: Frame) => Object.entries(matches).every(([field, value]) => push[field] === value);
    return until(() => this.pushes.find((push) => push.type === type && fits(push)), type, 40_000);
  }

  closing(): Promise<{ code: number; reason: string }> {
    return until(() => this.closed ?? undefined, "the close");
  }
}

/** A room's worth of sections does not fit the frame as it is. */
async function packed(sdp: string): Promise<{ sdp?: string; sdpDeflate?: string }> {
  if (sdp.length <= 8_192) return { sdp };
  const stream = new Blob([sdp]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  return { sdpDeflate: btoa(String.fromCharCode(...bytes)) };
}

async function plain({ sdp, sdpDeflate }: Frame): Promise<string> {
  if (sdp !== undefined) return String(sdp);
  const bytes = Uint8Array.from(atob(String(sdpDeflate)), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).text();
}

async function until<T>(check: () => T | undefined | Promise<T | undefined>, what: string, ms = 20_000): Promise<T> {
  const deadline = performance.now() + ms;
  for (;;) {
    const value = await check();
    if (value !== undefined) return value;
    if (performance.now() > deadline) throw new Error(`timed out waiting for ${what}`);
    await new Promise((wake) => setTimeout(wake, 20));
  }
}

/** WHIP or WHEP as their drafts have it: gather, POST, take the answer. */
async function whip(url: string, token: string, kind: "whip" | "whep"): Promise<{ location: string; page: RtcPage }> {
  const page = new RtcPage();
  if (kind === "whip") await page.publish();
  else page.receive(1);
  await page.pc.setLocalDescription(await page.pc.createOffer());
  await until(() => (page.pc.iceGatheringState === "complete" ? true : undefined), "candidates");
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/sdp" };
  const response = await fetch(url, { method: "POST", headers, body: page.pc.localDescription?.sdp });
  if (response.status !== 201) throw new Error(`${response.status}: ${await response.text()}`);
  await page.pc.setRemoteDescription({ type: "answer", sdp: await response.text() });
  return { location: new URL(String(response.headers.get("location")), url).href, page };
}

declare global {
  interface Window {
    rtc: RtcPage;
    openRtc(): RtcPage;
    whip: typeof whip;
    timedJoin(url: string, token: string, identity: string): ReturnType<typeof timedJoin>;
    location_: string;
  }
}

window.openRtc = () => {
  window.rtc = new RtcPage();
  return window.rtc;
};
window.whip = whip;
window.timedJoin = (url, token, identity) => timedJoin(new RtcPage(), url, token, identity);
