/** The media functions that both test clients share in a browser. */

export type VideoOptions = {
  width: number;
  height: number;
  frameRate?: number;
  /** The number of simulcast layers; one by default. */
  layers?: number;
  codec?: string;
  maxBitrate?: number;
};

/** The encodings from low to high; a browser sends three layers only from 960×540 up. */
export function encodings({ layers = 1, frameRate = 15, maxBitrate }: VideoOptions): RTCRtpEncodingParameters[] {
  const maxFramerate = frameRate;
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

export function prefer(transceiver: RTCRtpTransceiver, name: string): void {
  const { codecs = [] } = RTCRtpReceiver.getCapabilities("video") ?? {};
  const rest = codecs.filter(
    (codec) => codec.mimeType.toLowerCase() === `video/${name.toLowerCase()}` || codec.mimeType === "video/rtx",
  );
  transceiver.setCodecPreferences(rest);
}

/** Adds a receiving section and the element that plays it. */
export function addReceiver(pc: RTCPeerConnection, kind: "audio" | "video"): void {
  const { receiver } = pc.addTransceiver(kind, { direction: "recvonly" });
  const element = document.createElement(kind);
  element.autoplay = true;
  element.muted = kind === "video";
  element.srcObject = new MediaStream([receiver.track]);
  document.body.append(element);
}

export async function inbound(pc: RTCPeerConnection, mid: string): Promise<Record<string, number>> {
  for (const report of (await pc.getStats()).values()) {
    if (report.type === "inbound-rtp" && report.mid === mid) return report;
  }
  return {};
}

/**
 * A video track from a canvas, drawn until the track is stopped. It replaces a screen, which a user would have to pick, or
 * a camera with a higher resolution than the one that all pages of a browser share.
 */
export function canvasTrack({ width, height, frameRate = 15 }: VideoOptions): MediaStreamTrack {
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  const context = canvas.getContext("2d");
  const [track] = canvas.captureStream(frameRate).getVideoTracks();
  if (!track || !context) throw new Error("the canvas has no track");
  let hue = 0;
  const drawing = setInterval(() => {
    if (track.readyState === "ended") clearInterval(drawing);
    hue += 7;
    context.fillStyle = `hsl(${hue} 80% 50%)`;
    context.fillRect(0, 0, width, height);
  }, 1_000 / frameRate);
  return track;
}

export async function until<T>(
  check: () => T | undefined | Promise<T | undefined>,
  what: string,
  timeoutMs = 20_000,
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const value = await check();
    if (value !== undefined) return value;
    if (performance.now() > deadline) throw new Error(`timed out waiting for ${what}`);
    await new Promise((wake) => setTimeout(wake, 20));
  }
}
