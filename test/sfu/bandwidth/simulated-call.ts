/** A publisher, its viewers and the one link that all of them share: everything real but the network and the clock. */
import type { ImpairmentOptions } from "../../../src/kernel/net/impairment.ts";
import { Impairment, seededRandom } from "../../../src/kernel/net/impairment.ts";
import { RepeatingLink } from "./repeating-link.ts";
import { type Origin, SimulatedTrack, type TrackShape } from "./simulated-track.ts";
import { SimulatedViewer } from "./simulated-viewer.ts";

/** IP, UDP and the tag of SRTP: what a packet is on the wire beyond what is forwarded of it. */
const WIRE_OVERHEAD_BYTES = 44;

export type OnTheWay = {
  viewer: SimulatedViewer;
  sequence: number;
  sentMs: number;
  frame: SimulatedFrame;
  bytes: number;
};
/** The frame that a packet belongs to: `run` counts the keyframes of its track. */
export type SimulatedFrame = { track: number; isLast: boolean; run: number; layer: number };

type Report = { viewer: SimulatedViewer; data: Uint8Array };
type Link<Item> = {
  lost: number;
  push(item: Item, bytes: number, nowMs: number): void;
  takeDue(nowMs: number): Item[];
};
/** `repeats`: by a connection that repeats what is lost, there and back. */
type LinkOptions = ImpairmentOptions & { repeats?: true };

export class SimulatedCall {
  nowMs = 100_000;
  readonly startedMs = this.nowMs;
  readonly tracks: SimulatedTrack[];
  readonly viewers: SimulatedViewer[] = [];
  /** Every packet that got through: when it was sent, how long it waited for the link, and its size. */
  readonly passed: { atMs: number; waitedMs: number; bytes: number }[] = [];
  readonly #link: Link<OnTheWay> & { set?(options: ImpairmentOptions): void };
  readonly #back: RepeatingLink<Report> | null;
  #options: LinkOptions;

  /** `origin` is when the videos begin; without it they have been published for long. */
  constructor(options: LinkOptions, shapes: readonly TrackShape[], viewers = 1, seed = 1, origin?: Origin) {
    const random = seededRandom(seed);
    this.#options = options;
    this.#link = options.repeats ? new RepeatingLink(random, options) : new Impairment(seed, options);
    this.#back = options.repeats ? new RepeatingLink(random, options) : null;
    this.tracks = shapes.map((shape) => new SimulatedTrack(shape, random, this.nowMs, origin));
    const earlierMs = origin && "began" in origin ? origin.began : 0;
    for (let atMs = this.nowMs - earlierMs; atMs < this.nowMs; atMs++)
      for (const track of this.tracks) track.take(atMs);
    for (let n = 0; n < viewers; n++) this.join(random);
  }

  join(random: () => number = Math.random): SimulatedViewer {
    const viewer = new SimulatedViewer(this.tracks, this.nowMs, random, (bytes, sequence, frame) => {
      const wire = bytes + WIRE_OVERHEAD_BYTES;
      const { lost } = this.#link;
      this.#link.push({ viewer, sequence, sentMs: this.nowMs, frame, bytes: wire }, wire, this.nowMs);
      return this.#link.lost === lost;
    });
    const back = this.#back;
    if (back) viewer.wayBack = (data) => back.push({ viewer, data }, data.length + WIRE_OVERHEAD_BYTES);
    this.viewers.push(viewer);
    return viewer;
  }

  set(options: ImpairmentOptions): void {
    this.#options = options;
    this.#link.set?.(options);
  }

  run(ms: number): this {
    for (const end = this.nowMs + ms; this.nowMs < end; this.nowMs += 1) this.#step();
    return this;
  }

  #step(): void {
    for (const track of this.tracks)
      for (const packet of track.take(this.nowMs))
        for (const viewer of this.viewers) viewer.forward(packet, this.nowMs);
    for (const { viewer, sequence, sentMs, bytes, frame } of this.#link.takeDue(this.nowMs)) {
      const rate = this.#options.bandwidthBitsPerSecond;
      const ownMs = rate === undefined ? 0 : (bytes * 8000) / rate;
      const waitedMs = Math.max(0, this.nowMs - sentMs - (this.#options.delayMs ?? 0) - ownMs);
      this.passed.push({ atMs: sentMs, waitedMs, bytes });
      viewer.receive(sequence, frame, bytes, this.nowMs);
    }
    for (const { viewer, data } of this.#back?.takeDue(this.nowMs) ?? []) viewer.reported(data, this.nowMs);
    for (const viewer of this.viewers) viewer.step(this.nowMs);
  }

  /** From `fromMs` after the start on. */
  queueMs(share: number, fromMs = 0): number {
    const waits = this.passed.filter(({ atMs }) => atMs - this.startedMs >= fromMs).map(({ waitedMs }) => waitedMs);
    waits.sort((a, b) => a - b);
    return waits[Math.min(waits.length - 1, Math.floor(waits.length * share))] ?? 0;
  }

  /** The share of the link that was used. */
  used(fromMs: number): number {
    const bytes = this.passed.reduce((sum, one) => sum + (one.atMs - this.startedMs >= fromMs ? one.bytes : 0), 0);
    const ms = this.nowMs - this.startedMs - fromMs;
    return (bytes * 8000) / ms / (this.#options.bandwidthBitsPerSecond ?? Number.NaN);
  }

  /** The longest time that a viewer had no new frame of any video. */
  longestStandstillMs(fromMs: number): number {
    return Math.max(...this.viewers.map((viewer) => viewer.longestStandstillMs(this.startedMs + fromMs, this.nowMs)));
  }

  /** The ratio of the viewer that got the most to the one that got the least. */
  get unevenness(): number {
    const bytes = this.viewers.map((viewer) => viewer.receivedBytes);
    return Math.max(...bytes) / Math.min(...bytes);
  }
}
