/** Composes the room at a constant frame rate: every tick draws one frame and mixes the samples that belong to it. */
import type { NegotiateAnswer } from "../../../protocol/media-node.ts";
import type { SubscribedSection, SubscriptionChange } from "../../../protocol/signaling.ts";
import { Canvas } from "./canvas.ts";
import { startEncoder } from "./encoder.ts";
import { Labels } from "./labels.ts";
import type { OutputReport, OutputTarget, Scene, StartCompositor } from "./messages.ts";
import { Mixer, SAMPLE_RATE } from "./mixer.ts";
import { Output } from "./output.ts";
import { RoomInput } from "./room-input.ts";
import { fitted, type Layout, type Tile, tilesOf } from "./scene.ts";

/** The time for late packets to arrive and frames to be decoded without a gap in the output. */
const PLAYOUT_DELAY_MS = 400;
const TICK_MS = 5;
/** The composition begins after this time even if there is nothing to see or hear. */
const BEGIN_WITHIN_MS = 5_000;
/** If this process was stopped for longer, the missed time is left out. */
const MAX_BEHIND_MS = 1_000;
const LABEL_MARGIN = 12;
/** A participant on the stage stays for at least this time, so that a short word of another does not change the stage. */
const MIN_STAGE_MS = 2_000;

type CompositionHost = {
  negotiate: (sdp: string, subscribe: SubscribedSection[]) => Promise<NegotiateAnswer>;
  update: (tracks: SubscriptionChange[]) => void;
  started(): void;
  slow(): void;
  output(report: OutputReport): void;
  ended(error: string | null): void;
  failed(error: Error): void;
};

export class Composition {
  readonly #host: CompositionHost;
  readonly #options: StartCompositor;
  readonly #mixer = new Mixer();
  readonly #canvas: Canvas;
  readonly #labels: Labels;
  readonly #input: RoomInput;
  readonly #outputs = new Map<string, Output>();
  readonly #encoder: ReturnType<typeof startEncoder>;
  readonly #timer: ReturnType<typeof setInterval>;
  #scene: Scene = { tracks: [], speakers: [] };
  #layout: Layout;
  #tiles: Tile[] = [];
  #stage: string | null = null;
  #stageSinceMs = Number.NEGATIVE_INFINITY;
  #rearranging: ReturnType<typeof setTimeout> | null = null;
  /** The time of the first frame, plus all time that was left out. */
  #startMs: number;
  #begun = false;
  #frames = 0;
  #hasOutput = false;
  #isSlow = false;
  #ending = false;

  constructor(options: StartCompositor, host: CompositionHost) {
    this.#options = options;
    this.#host = host;
    this.#layout = options.layout;
    const { ffmpeg, font, showsNames, encoding } = options;
    this.#canvas = new Canvas(encoding.width, encoding.height);
    this.#labels = new Labels(ffmpeg, showsNames ? font : null, encoding.height);
    this.#input = new RoomInput({
      ffmpeg,
      mixer: this.#mixer,
      hasAudio: encoding.hasAudio,
      now,
      negotiate: host.negotiate,
      update: host.update,
      onError: host.failed,
    });
    for (const output of options.outputs) this.addOutput(output);
    this.#encoder = startEncoder(ffmpeg, encoding, (bytes) => this.#encoded(bytes));
    this.#encoder.ended.then((error) => {
      if (!this.#ending) void this.end(`ffmpeg: ${error ?? "ended early"}`);
    });
    this.#startMs = now();
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
  }

  connect = (): void => this.#input.connect();
  disconnect = (): void => this.#input.disconnect();

  show(scene: Scene): void {
    this.#scene = scene;
    this.#arrange();
  }

  setLayout(layout: Layout): void {
    this.#layout = layout;
    this.#arrange();
  }

  addOutput(target: OutputTarget): void {
    if (this.#ending || this.#outputs.has(target.id)) return;
    this.#outputs.set(target.id, new Output(this.#options.ffmpeg, target, this.#host.output));
  }

  removeOutput(id: string): void {
    const output = this.#outputs.get(id);
    this.#outputs.delete(id);
    void output?.end();
  }

  /** Completes all outputs. */
  async end(error: string | null = null): Promise<void> {
    if (this.#ending) return;
    this.#ending = true;
    clearInterval(this.#timer);
    this.#input.disconnect();
    await this.#encoder.end();
    await Promise.all([...this.#outputs.values()].map((output) => output.end()));
    this.#host.ended(error);
  }

  #arrange(): void {
    const { tracks, speakers } = this.#scene;
    const { hasVideo, width, height } = this.#options.encoding;
    const waitMs = this.#stageSinceMs + MIN_STAGE_MS - now();
    const heard = waitMs > 0 ? [] : speakers;
    this.#tiles = hasVideo ? tilesOf(tracks, heard, this.#layout, { width, height }, this.#stage) : [];
    const stage = this.#tiles[0]?.identity ?? null;
    if (stage !== this.#stage) this.#stageSinceMs = now();
    this.#stage = stage;
    if (waitMs > 0) this.#rearranging ??= setTimeout(() => this.#rearrange(), waitMs);
    this.#input.show(tracks, this.#tiles);
  }

  #rearrange(): void {
    this.#rearranging = null;
    if (!this.#ending) this.#arrange();
  }

  #tick(): void {
    if (!this.#begun) {
      if (!this.#input.hasMedia && now() - this.#startMs < BEGIN_WITHIN_MS) return;
      this.#begun = true;
      this.#startMs = now() - PLAYOUT_DELAY_MS;
    }
    const frameMs = 1_000 / this.#options.encoding.framesPerSecond;
    for (;;) {
      const atMs = this.#startMs + this.#frames * frameMs;
      const lateMs = now() - PLAYOUT_DELAY_MS - atMs;
      if (lateMs < 0) return;
      // The same time is left out of sound and frames, so that they stay in sync and close to live.
      if (lateMs > MAX_BEHIND_MS) {
        this.#startMs += lateMs;
        this.#reportSlow();
        continue;
      }
      if (this.#encoder.isBehind()) return;
      this.#compose(atMs);
      this.#frames += 1;
    }
  }

  #compose(atMs: number): void {
    const { hasVideo, hasAudio, framesPerSecond } = this.#options.encoding;
    const frame = hasVideo ? this.#draw(atMs) : null;
    const sampleAt = (frames: number) => Math.round((frames * SAMPLE_RATE) / framesPerSecond);
    const first = Math.round((this.#startMs * SAMPLE_RATE) / 1_000) + sampleAt(this.#frames);
    const count = sampleAt(this.#frames + 1) - sampleAt(this.#frames);
    this.#encoder.add(frame, hasAudio ? this.#mixer.mix(first, count) : null);
  }

  #draw(atMs: number): Uint8Array {
    const canvas = this.#canvas;
    canvas.clear();
    for (const { trackId, name, rectangle } of this.#tiles) {
      const frame = trackId === null ? null : this.#input.frameAt(trackId, atMs);
      if (frame) canvas.draw(frame, fitted(frame, rectangle));
      const label = this.#options.showsNames ? this.#labels.of(name) : null;
      if (!label) continue;
      const left = even(rectangle.x + (frame ? LABEL_MARGIN : Math.max(0, (rectangle.width - label.width) / 2)));
      const top = even(
        rectangle.y + (frame ? rectangle.height - label.height - LABEL_MARGIN : (rectangle.height - label.height) / 2),
      );
      if (rectangle.height > 2 * label.height) canvas.drawText(label, left, top, rectangle.width - 2 * LABEL_MARGIN);
    }
    return canvas.data;
  }

  #encoded(bytes: Uint8Array): void {
    if (!this.#hasOutput) this.#host.started();
    this.#hasOutput = true;
    for (const output of this.#outputs.values()) output.add(bytes);
  }

  #reportSlow(): void {
    if (!this.#isSlow && this.#hasOutput) this.#host.slow();
    this.#isSlow ||= this.#hasOutput;
  }
}

const even = (value: number): number => 2 * Math.floor(value / 2);
/** A monotonic clock, because a correction of the system time must not disturb the composition. */
const now = (): number => performance.timeOrigin + performance.now();
