/** Functions that run in the pages. Each one stands alone, because it is sent there as text. */
import type * as Sdk from "../../../web/sdk/index.ts";
import type { VideoCodec } from "../../../web/sdk/room/peer/codecs.ts";

type Way = { endpoint: string; token: string };
export type Sent = { codec: VideoCodec; framesPerSecond: number; encodings: RTCRtpEncodingParameters[] };
export type Counted = {
  atMs: number;
  bytes: number;
  frames: number;
  freezes: number;
  /** The duration of all freezes so far. */
  frozenMs: number;
  keyframeRequests: number;
};
export type Compared = { size: string; ssim: number }[];

declare global {
  interface Window {
    bench: {
      WIDTH: number;
      HEIGHT: number;
      /** Draws frame `n`, the same in every page, with its number in a strip of black and white fields. */
      draw(context: CanvasRenderingContext2D, n: number): void;
      /** The number in the strip, or −1. */
      numberOf(luma: Uint8Array): number;
      lumaOf(context: CanvasRenderingContext2D): Uint8Array;
      /** The mean structural similarity below the strip. */
      ssim(one: Uint8Array, other: Uint8Array): number;
      newContext(): CanvasRenderingContext2D;
      connections: RTCPeerConnection[];
      video: HTMLVideoElement | null;
      frames: { n: number; size: string; luma: Uint8Array }[];
      isGrabbing: boolean;
      room: Sdk.Room;
      stop?: () => Promise<void>;
    };
  }
}

/** A landscape with detail in all sizes, over which the view moves, and three textured discs in front of it. */
export function prepareBench([WIDTH, HEIGHT]: [number, number]): void {
  const [BITS, STRIP] = [16, Math.round(HEIGHT / 18)];
  const newContext = (width = WIDTH, height = HEIGHT) => {
    const canvas = Object.assign(document.createElement("canvas"), { width, height });
    return canvas.getContext("2d", { willReadFrequently: true }) as CanvasRenderingContext2D;
  };
  let seed = 7;
  const random = () => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) & 0x7fffffff;
    return seed / 0x7fffffff;
  };
  /** Noise whose contrast is in proportion to its grain, like that of photographs. */
  const texture = (width: number, height: number, tint: readonly number[]) => {
    const scene = newContext(width, height);
    scene.fillStyle = `rgb(${tint.join(",")})`;
    scene.fillRect(0, 0, width, height);
    scene.globalCompositeOperation = "overlay";
    for (let grain = 256; grain >= 2; grain /= 2) {
      const small = newContext(Math.ceil(width / grain), Math.ceil(height / grain));
      const pixels = small.createImageData(small.canvas.width, small.canvas.height);
      for (let at = 0; at < pixels.data.length; at++) pixels.data[at] = at % 4 === 3 ? 255 : random() * 255;
      small.putImageData(pixels, 0, 0);
      scene.globalAlpha = 0.05 + 0.6 * (Math.log2(grain) / 8) ** 1.5;
      scene.drawImage(small.canvas, 0, 0, width, height);
    }
    scene.globalAlpha = 1;
    scene.globalCompositeOperation = "source-over";
    return scene;
  };
  const ground = texture(WIDTH * 2, HEIGHT * 2, [110, 130, 100]);
  for (let line = 0; line < 24; line++) {
    ground.fillStyle = line % 2 ? "#203040" : "#e8e0d0";
    ground.font = `${14 + (line % 5) * 6}px sans-serif`;
    ground.fillText("Every viewer gets what fits 0123456789", random() * WIDTH * 1.4, (line + 1) * (HEIGHT / 12.5));
  }
  const discs = [
    [190, 140, 120],
    [90, 110, 170],
    [170, 170, 90],
  ].map((tint) => texture(Math.round(HEIGHT / 2), Math.round(HEIGHT / 2), tint).canvas);
  window.bench = {
    WIDTH,
    HEIGHT,
    newContext,
    connections: [],
    video: null,
    frames: [],
    isGrabbing: false,
    room: null as unknown as Sdk.Room,
    draw(context, n) {
      const turn = n / 60;
      context.setTransform(1, 0, 0, 1, 0, 0);
      const left = WIDTH / 2 + (WIDTH / 2.2) * Math.sin(turn / 2);
      const top = HEIGHT / 2 + (HEIGHT / 2.2) * Math.cos(turn / 3);
      context.drawImage(ground.canvas, -left, -top);
      for (const [at, disc] of discs.entries()) {
        const radius = disc.width / 2;
        const x = WIDTH * (0.5 + 0.35 * Math.sin(turn * 1.3 + at * 2));
        const y = HEIGHT * (0.55 + 0.3 * Math.cos(turn * 1.7 + at));
        context.setTransform(Math.cos(turn + at), Math.sin(turn + at), -Math.sin(turn + at), Math.cos(turn + at), x, y);
        context.save();
        context.beginPath();
        context.arc(0, 0, radius, 0, 7);
        context.clip();
        context.drawImage(disc, -radius, -radius);
        context.restore();
      }
      context.setTransform(1, 0, 0, 1, 0, 0);
      for (let bit = 0; bit < BITS; bit++) {
        context.fillStyle = (n >> bit) & 1 ? "#fff" : "#000";
        context.fillRect(Math.floor((bit * WIDTH) / BITS), 0, Math.ceil(WIDTH / BITS), STRIP);
      }
    },
    numberOf(luma) {
      let n = 0;
      for (let bit = 0; bit < BITS; bit++) {
        const value = luma[Math.floor(STRIP / 2) * WIDTH + Math.floor(((bit + 0.5) * WIDTH) / BITS)] ?? 128;
        if (value > 90 && value < 165) return -1;
        if (value >= 165) n |= 1 << bit;
      }
      return n;
    },
    lumaOf(context) {
      const { data } = context.getImageData(0, 0, WIDTH, HEIGHT);
      const luma = new Uint8Array(WIDTH * HEIGHT);
      for (let at = 0; at < luma.length; at++) {
        const [red = 0, green = 0, blue = 0] = [data[at * 4], data[at * 4 + 1], data[at * 4 + 2]];
        luma[at] = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
      }
      return luma;
    },
    ssim(one, other) {
      const [SIDE, STEP] = [8, 4];
      const [C1, C2] = [(0.01 * 255) ** 2, (0.03 * 255) ** 2];
      let [sum, windows] = [0, 0];
      for (let y = STRIP + SIDE; y + SIDE <= HEIGHT; y += STEP) {
        for (let x = 0; x + SIDE <= WIDTH; x += STEP) {
          let [a, b, aa, bb, ab] = [0, 0, 0, 0, 0];
          for (let row = 0; row < SIDE; row++) {
            for (let at = (y + row) * WIDTH + x, end = at + SIDE; at < end; at++) {
              const [p = 0, q = 0] = [one[at], other[at]];
              a += p;
              b += q;
              aa += p * p;
              bb += q * q;
              ab += p * q;
            }
          }
          const count = SIDE * SIDE;
          const [meanA, meanB] = [a / count, b / count];
          const [varianceA, varianceB] = [aa / count - meanA * meanA, bb / count - meanB * meanB];
          const covariance = ab / count - meanA * meanB;
          sum +=
            ((2 * meanA * meanB + C1) * (2 * covariance + C2)) /
            ((meanA * meanA + meanB * meanB + C1) * (varianceA + varianceB + C2));
          windows += 1;
        }
      }
      return sum / windows;
    },
  };
  const Original = RTCPeerConnection;
  window.RTCPeerConnection = class extends Original {
    constructor(configuration?: RTCConfiguration) {
      super(configuration);
      window.bench.connections.push(this);
    }
  };
}

/** Joins, and resolves with the page's media port once it is connected. A video is shown in full size. */
export async function joinBench({ endpoint, token }: Way): Promise<number> {
  const path = "/sdk.js";
  const sdk: typeof Sdk = await import(path);
  const { bench } = window;
  bench.room = await sdk.connect(endpoint, token);
  const context = bench.newContext();
  const GRAB_EVERY_MS = 500;
  bench.room.on("trackSubscribed", (track) => {
    const video = track.attach() as HTMLVideoElement;
    video.style.cssText = `display:block;width:${bench.WIDTH}px;height:${bench.HEIGHT}px`;
    document.body.append(video);
    bench.video = video;
    let grabbedMs = 0;
    const shown = (nowMs: number) => {
      if (bench.video !== video) return;
      video.requestVideoFrameCallback(shown);
      if (!bench.isGrabbing || nowMs - grabbedMs < GRAB_EVERY_MS) return;
      grabbedMs = nowMs;
      context.imageSmoothingQuality = "high";
      context.drawImage(video, 0, 0, bench.WIDTH, bench.HEIGHT);
      const luma = bench.lumaOf(context);
      bench.frames.push({ n: bench.numberOf(luma), size: `${video.videoWidth}×${video.videoHeight}`, luma });
    };
    video.requestVideoFrameCallback(shown);
  });
  bench.room.on("trackUnsubscribed", () => {
    bench.video?.remove();
    bench.video = null;
  });
  for (;;) {
    const entries = [...((await bench.connections.at(-1)?.getStats()) ?? [])].map(([, entry]) => entry);
    const { selectedCandidatePairId } = entries.find(({ type }) => type === "transport") ?? {};
    const { localCandidateId } = entries.find(({ id }) => id === selectedCandidatePairId) ?? {};
    const { port } = entries.find(({ id }) => id === localCandidateId) ?? {};
    if (port) return port;
    await new Promise((wake) => setTimeout(wake, 100));
  }
}

export async function publishBench({ codec, framesPerSecond, encodings }: Sent): Promise<void> {
  const { bench } = window;
  const context = bench.newContext();
  const stream = context.canvas.captureStream(0);
  const [track] = stream.getVideoTracks() as CanvasCaptureMediaStreamTrack[];
  if (!track) throw new Error("the canvas has no track");
  let n = 0;
  const timer = setInterval(() => {
    bench.draw(context, n);
    track.requestFrame();
    n += 1;
  }, 1_000 / framesPerSecond);
  const published = await bench.room.localParticipant.publish(track, { source: "camera", codec, encodings });
  bench.stop = async () => {
    clearInterval(timer);
    await bench.room.localParticipant.unpublish(published);
  };
}

/** Raises what the largest stream may take. */
export async function raiseTop(byBps: number): Promise<void> {
  const senders = window.bench.connections.at(-1)?.getSenders() ?? [];
  for (const sender of senders.filter(({ track }) => track?.kind === "video")) {
    const parameters = sender.getParameters();
    const top = parameters.encodings.at(-1);
    if (top?.maxBitrate) top.maxBitrate += byBps;
    await sender.setParameters(parameters);
  }
}

/** What the connection has sent or received of video so far. */
export async function countVideo(): Promise<Counted> {
  const { bench } = window;
  const counted: Counted = {
    atMs: performance.now(),
    bytes: 0,
    frames: 0,
    freezes: 0,
    frozenMs: 0,
    keyframeRequests: 0,
  };
  for (const [, entry] of (await bench.connections.at(-1)?.getStats()) ?? []) {
    if (entry.kind !== "video" || (entry.type !== "inbound-rtp" && entry.type !== "outbound-rtp")) continue;
    const isIn = entry.type === "inbound-rtp";
    counted.bytes += isIn ? entry.bytesReceived + entry.headerBytesReceived : entry.bytesSent + entry.headerBytesSent;
    counted.frames += (isIn ? entry.framesDecoded : entry.framesSent) ?? 0;
    counted.freezes += entry.freezeCount ?? 0;
    counted.frozenMs += (entry.totalFreezesDuration ?? 0) * 1_000;
    counted.keyframeRequests += entry.pliCount ?? 0;
  }
  return counted;
}

/** From now on, frames that are shown are kept for the comparison, or no more of them. */
export function grabFrames(isGrabbing: boolean): void {
  window.bench.isGrabbing = isGrabbing;
}

/** Compares the frames that were shown with the originals. */
export function compareFrames(): Compared {
  const { bench } = window;
  const context = bench.newContext();
  const compared = bench.frames.map(({ n, size, luma }) => {
    if (n < 0) return { size, ssim: Number.NaN };
    bench.draw(context, n);
    return { size, ssim: bench.ssim(luma, bench.lumaOf(context)) };
  });
  bench.frames = [];
  return compared;
}
