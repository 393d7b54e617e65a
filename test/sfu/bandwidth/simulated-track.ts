/** A published track: frames in packets, paced as browsers do, and a keyframe a moment after it was requested. */
import { LayerRate } from "../../../src/sfu/bandwidth/rate-meter.ts";

export type TrackShape = {
  kind: "audio" | "camera";
  layers: readonly { bitrate: number; height: number }[];
  frameMs: number;
};
/** A track that was paused without subscribers and resumes after `wakes` milliseconds, or one that began `began` milliseconds ago. */
export type Origin = { wakes: number } | { began: number };
export type TrackPacket = {
  track: SimulatedTrack;
  layer: number;
  bytes: number;
  keyframe: boolean;
  isFirst: boolean;
  isLast: boolean;
};

export const VOICE: TrackShape = { kind: "audio", layers: [{ bitrate: 64_000, height: 0 }], frameMs: 20 };
/** Voice with every frame sent twice. */
export const REDUNDANT_VOICE: TrackShape = { kind: "audio", layers: [{ bitrate: 100_000, height: 0 }], frameMs: 20 };
export const SMALL_CAMERA: TrackShape = {
  kind: "camera",
  layers: [
    { bitrate: 130_000, height: 180 },
    { bitrate: 450_000, height: 360 },
  ],
  frameMs: 66,
};
export const LARGE_CAMERA: TrackShape = {
  kind: "camera",
  layers: [
    { bitrate: 150_000, height: 180 },
    { bitrate: 500_000, height: 360 },
    { bitrate: 1_500_000, height: 720 },
  ],
  frameMs: 33,
};

const PACKET_BYTES = 1_150;
/** A keyframe is this many times as large as other frames, which are smaller for a while afterwards. */
const KEYFRAME_SIZE = 4.5;
const KEYFRAME_INTERVAL_MS = 500;
/** From the request to the encoder and from there back to the server. */
const KEYFRAME_DELAY_MS = 60;
const PACING = 2.5;
/** How long a resumed track had no subscribers, and how long it was sent before that. */
const RESTED_MS = 10_000;
const EARLIER_MS = 6_000;
/** A publisher that has begun finds out what its own path carries: the lowest layer has all it wants by then, the others later. */
const RAMP_MS = [3_000, 9_000] as const;
const RAMP_FROM = [0.4, 0.25] as const;

export class SimulatedTrack {
  readonly shape: TrackShape;
  readonly rates: LayerRate[];
  readonly beginsMs: number;
  readonly #random: () => number;
  readonly #phaseMs: number;
  readonly #layers: { askedMs: number; dueMs: number; debt: number; waiting: TrackPacket[]; credit: number }[];

  readonly #isYoung: boolean;

  constructor(shape: TrackShape, random: () => number, nowMs: number, origin?: Origin) {
    this.shape = shape;
    const rests = origin !== undefined && "wakes" in origin && shape.kind !== "audio";
    this.#isYoung = origin !== undefined && "began" in origin;
    this.beginsMs = rests
      ? nowMs + origin.wakes
      : this.#isYoung
        ? nowMs - (origin as { began: number }).began
        : Number.NEGATIVE_INFINITY;
    this.rates = shape.layers.map(() => new LayerRate());
    this.#random = random;
    this.#phaseMs = Math.floor(random() * shape.frameMs);
    this.#layers = shape.layers.map(() => ({
      askedMs: Number.NEGATIVE_INFINITY,
      dueMs: rests ? this.beginsMs : Number.POSITIVE_INFINITY,
      debt: 0,
      waiting: [],
      credit: 0,
    }));
    if (this.#isYoung) return;
    const restedMs = rests ? this.beginsMs - RESTED_MS : nowMs;
    for (const [layer, { bitrate }] of shape.layers.entries())
      for (let atMs = restedMs - EARLIER_MS; atMs < restedMs; atMs += shape.frameMs)
        this.rates[layer]?.add((bitrate / 8000) * shape.frameMs, atMs);
  }

  askKeyframe(layer: number, nowMs: number): void {
    const state = this.#layers[layer];
    if (!state || nowMs - state.askedMs < KEYFRAME_INTERVAL_MS) return;
    state.askedMs = nowMs;
    state.dueMs = nowMs + KEYFRAME_DELAY_MS;
  }

  /** The packets that reach the server in this millisecond. */
  take(nowMs: number): TrackPacket[] {
    const out: TrackPacket[] = [];
    if (nowMs < this.beginsMs) return out;
    const total = this.shape.layers.reduce((sum, { bitrate }) => sum + bitrate, 0);
    for (const [layer, state] of this.#layers.entries()) {
      if ((nowMs + this.#phaseMs) % this.shape.frameMs === 0) this.#encode(layer, nowMs);
      state.credit = Math.min(3_000, state.credit + (total / 8000) * PACING);
      while (state.waiting[0] && state.credit > 0) {
        const packet = state.waiting.shift() as TrackPacket;
        state.credit -= packet.bytes;
        this.rates[layer]?.add(packet.bytes, nowMs);
        out.push(packet);
      }
    }
    return out;
  }

  #encode(layer: number, nowMs: number): void {
    const state = this.#layers[layer];
    const shape = this.shape.layers[layer];
    if (!state || !shape) return;
    const average = (shape.bitrate / 8000) * this.shape.frameMs * this.#share(layer, nowMs);
    const keyframe = this.shape.kind !== "audio" && nowMs >= state.dueMs;
    const spread = this.shape.kind === "audio" ? 1 : 0.7 + this.#random() * 0.6;
    let bytes = average * (keyframe ? KEYFRAME_SIZE : spread);
    if (keyframe) {
      state.dueMs = Number.POSITIVE_INFINITY;
      state.debt += bytes - average;
    } else if (state.debt > 0) {
      const saved = Math.min(state.debt, bytes * 0.3);
      state.debt -= saved;
      bytes -= saved;
    }
    const count = Math.max(1, Math.ceil(bytes / PACKET_BYTES));
    for (let n = 0; n < count; n++)
      state.waiting.push({
        track: this,
        layer,
        bytes: Math.round(bytes / count),
        keyframe,
        isFirst: n === 0,
        isLast: n === count - 1,
      });
  }

  #share(layer: number, nowMs: number): number {
    if (!this.#isYoung || this.shape.kind === "audio") return 1;
    const step = layer === 0 ? 0 : 1;
    return Math.min(1, RAMP_FROM[step] + ((1 - RAMP_FROM[step]) * (nowMs - this.beginsMs)) / RAMP_MS[step]);
  }
}
