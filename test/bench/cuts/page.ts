/** Functions that run in the pages. Each one stands alone, because it is sent there as text. */
import type * as Sdk from "../../../web/sdk/index.ts";

type Way = { endpoint: string; token: string };
export type Source = "camera" | "microphone";
type Video = { width: number; height: number; frameRate: number };

declare global {
  interface Window {
    diary: { at: number; what: string }[];
    /** The connection that was built last. */
    connection: RTCPeerConnection;
    /** The largest delay of a timer in the page since it was last read. */
    starved: { mostMs: number };
  }
}

/**
 * Records what the page's sockets and connections go through, to show what a slow return waited for, and how much CPU time the page
 * had.
 */
export function keepDiary(): void {
  const TICK_MS = 100;
  const diary: Window["diary"] = [];
  const starved = { mostMs: 0 };
  Object.assign(window, { diary, starved });
  const QUIET = new Set(["pong", "ack", "speakers.changed", "quality.changed", "quality.explained"]);
  const note = (what: string) => diary.push({ at: Date.now(), what });
  let tick = Date.now();
  setInterval(() => {
    const lateMs = Date.now() - tick - TICK_MS;
    tick = Date.now();
    starved.mostMs = Math.max(starved.mostMs, lateMs);
    if (lateMs > 500) note(`page had no time for ${lateMs} ms`);
  }, TICK_MS);
  window.WebSocket = class extends WebSocket {
    constructor(url: string | URL, protocols?: string | string[]) {
      super(url, protocols);
      note("socket begins");
      this.addEventListener("open", () => note("socket open"));
      this.addEventListener("close", ({ code }) => note(`socket closed ${code}`));
      this.addEventListener("message", ({ data }) => {
        const { type, mode, trackId = "", layer = "", reason = "" } = JSON.parse(data);
        if (mode !== undefined) note(`joined: ${mode}`);
        else if (!QUIET.has(type)) note(`hears ${[type, trackId.slice(-4), layer, reason].join(" ").trim()}`);
      });
    }
    override send(data: string): void {
      const { type, iceRestart = false } = JSON.parse(data);
      if (type !== "ping") note(`says ${type}${iceRestart ? " with new ICE" : ""}`);
      super.send(data);
    }
  };
  window.RTCPeerConnection = class extends RTCPeerConnection {
    constructor(options?: RTCConfiguration) {
      super(options);
      note("connection begins");
      window.connection = this;
      this.addEventListener("connectionstatechange", () => note(`connection ${this.connectionState}`));
    }
  };
}

/** Joins as a page of a user would, with a small video or a voice without processing. */
export async function joinCall({ sends, ...options }: Way & Video & { sends: Source }): Promise<void> {
  const { endpoint, token, width, height, frameRate } = options;
  const path = "/sdk.js";
  const sdk: typeof Sdk = await import(path);
  const room = await sdk.connect(endpoint, token);
  room.on("trackSubscribed", (track, { identity }) => {
    if (track.kind !== "video") return;
    const element = track.attach();
    element.id = identity;
    element.style.cssText = `display:block;width:${width}px;height:${height}px`;
    document.body.append(element);
  });
  room.on("trackUnsubscribed", ({ kind }, { identity }) => {
    if (kind === "video") document.getElementById(identity)?.remove();
  });
  if (sends === "camera") {
    await room.localParticipant.enableCamera({ width, height, frameRate });
    return;
  }
  const constraints = { echoCancellation: false, noiseSuppression: false, autoGainControl: false };
  await room.localParticipant.enableMicrophone({ constraints });
}

/** The server's port for the media of this call; null while it is not known. */
export async function mediaPort(): Promise<number | null> {
  for (const [, { type, port }] of await window.connection.getStats())
    if (type === "remote-candidate" && port > 0) return port;
  return null;
}

type Wish = { of: Source; frames: number; patienceMs: number };

/** Resolves with true once this many more frames have been shown, or more audio has arrived; with false if not in time. */
export async function seesOrHears({ of: source, frames, patienceMs }: Wish): Promise<boolean> {
  const note = (what: string) => void window.diary.push({ at: Date.now(), what });
  const shown = () => {
    const element = document.querySelector("video");
    if (!element) return { of: null, count: 0 };
    // Firefox counts the frames of a stream under a name of its own.
    const { mozPaintedFrames = 0 } = element as { mozPaintedFrames?: number };
    return { of: element, count: Math.max(element.getVideoPlaybackQuality().totalVideoFrames, mozPaintedFrames) };
  };
  const heard = async () => {
    const of = window.connection;
    let count = 0;
    for (const [, { type, kind, packetsReceived = 0 }] of await of.getStats())
      if (type === "inbound-rtp" && kind === "audio") count += packetsReceived;
    return { of, count };
  };
  let [video, sound] = [shown(), await heard()];
  let [sees, hears] = [source !== "camera", source !== "microphone"];
  for (const end = Date.now() + patienceMs; Date.now() < end; await new Promise((next) => setTimeout(next, 100))) {
    if (!sees) {
      const now = shown();
      // Another element, or another connection, begins from nothing.
      if (now.of !== video.of || now.count < video.count) video = { ...now, count: 0 };
      sees = now.count - video.count >= frames;
      if (sees) note("sees");
    }
    if (!hears) {
      const now = await heard();
      if (now.of !== sound.of || now.count < sound.count) sound = { ...now, count: 0 };
      hears = now.count > sound.count;
      if (hears) note("listens");
    }
    if (sees && hears) return true;
  }
  return false;
}

/** The largest delay of a timer since this was last called. */
export function mostStarvedMs(): number {
  const { mostMs } = window.starved;
  window.starved.mostMs = 0;
  return mostMs;
}

/** All entries since then, in seconds. */
export const readDiary = (from: number) =>
  window.diary.filter(({ at }) => at >= from).map(({ at, what }) => `${((at - from) / 1_000).toFixed(1)} ${what}`);
