import { Impairment, type ImpairmentOptions } from "../../../src/kernel/net/impairment.ts";
import type { LayerFigures } from "../../../src/sfu/bandwidth/layer-chooser.ts";
import { BandwidthPlanner } from "../../../src/sfu/bandwidth/planner.ts";
import type { ProbePlan } from "../../../src/sfu/bandwidth/probe.ts";
import { parseRtcp } from "../../../src/sfu/wire/rtcp/rtcp.ts";
import { MAX_TWCC_BYTES, TwccRecorder } from "../../../src/sfu/wire/rtcp/twcc.ts";
import { SentPackets, TransportFeedback } from "../../../src/sfu/wire/rtcp/twcc-feedback.ts";
import { PeerClock } from "../peer-clock.ts";

const LAYERS: LayerFigures[] = [
  { bitrate: 150_000, height: 180, live: true },
  { bitrate: 500_000, height: 360, live: true },
  { bitrate: 1_500_000, height: 720, live: true },
];

/** A viewer of one camera behind a network, with everything real but the network and the clock. */
export class Simulation {
  nowMs = 100_000;
  readonly delayMs: number;
  readonly network: Impairment<{ sequence: number; sentMs: number }>;
  readonly #planner = new BandwidthPlanner();
  readonly estimator = this.#planner.estimator;
  readonly #sent = new SentPackets(65_000);
  readonly #recorder = new TwccRecorder();
  readonly #feedback = new TransportFeedback();
  readonly #back: { atMs: number; data: Uint8Array }[] = [];
  readonly layers: { atMs: number; layer: number }[] = [];
  probes = 0;
  /** Layers the publisher sends, counted from the lowest, and how often. */
  published = LAYERS.length;
  frameMs = 33;
  /** Whether the viewer watches the video. */
  watched = true;
  #layer = 0;
  #credit = 0;
  #waitedMs = 0;
  #frame = 0;
  #probe: { plan: ProbePlan; startedMs: number; sentBytes: number } | undefined;

  constructor(
    options: ImpairmentOptions,
    readonly returnDelayMs = 30,
    seed = 3,
    readonly clock = new PeerClock({ uptimeMs: 7_000_000 }),
  ) {
    this.delayMs = options.delayMs ?? 0;
    this.network = new Impairment(seed, options);
  }

  /** How long the last packet that arrived had waited for the link. */
  get queueMs(): number {
    return this.#waitedMs;
  }

  get layer(): number {
    return this.#layer;
  }

  run(ms: number): this {
    for (const end = this.nowMs + ms; this.nowMs < end; this.nowMs += 1) this.#step();
    return this;
  }

  #step(): void {
    // Frames are paced by their publisher at 2.5 times its rate, as browsers do.
    const rate = (this.#layer < this.published && LAYERS[this.#layer]?.bitrate) || 0;
    if (this.nowMs % this.frameMs === 0) this.#frame += (rate / 8000) * this.frameMs;
    this.#credit = Math.min(this.#frame, this.#credit + (rate / 8000) * 2.5);
    for (; this.#credit >= 1_100; this.#credit -= 1_100, this.#frame -= 1_100) this.#send(1_100, 0);
    this.#sendProbe();
    for (const { sequence, sentMs } of this.network.takeDue(this.nowMs)) {
      this.#recorder.record(sequence, this.clock.monotonicMs(this.nowMs));
      this.#waitedMs = this.nowMs - sentMs - this.delayMs;
    }
    if (this.nowMs % 50 === 0) this.#report();
    while (this.#back[0] !== undefined && this.#back[0].atMs <= this.nowMs) {
      const data = this.#back.shift()?.data;
      if (data === undefined || !this.#feedback.parse(data)) continue;
      this.estimator.onFeedback(this.#feedback, this.#sent, this.nowMs);
      if (this.#planner.isDue(this.nowMs)) this.#choose();
    }
    if (this.nowMs % 100 === 0) this.#choose();
  }

  #send(bytes: number, probe: number): void {
    const sequence = this.#sent.next(bytes, this.nowMs, probe);
    this.network.push({ sequence, sentMs: this.nowMs }, bytes, this.nowMs);
  }

  #sendProbe(): void {
    if (this.#probe === undefined) return;
    const { plan, startedMs } = this.#probe;
    const due = (plan.bytes * (this.nowMs - startedMs)) / plan.durationMs;
    for (; this.#probe.sentBytes < Math.min(due, plan.bytes); this.#probe.sentBytes += 900) this.#send(900, plan.id);
    if (this.#probe.sentBytes >= plan.bytes) this.#probe = undefined;
  }

  #report(): void {
    const out = new Uint8Array(MAX_TWCC_BYTES);
    while (this.#recorder.pending) {
      const [packet] = parseRtcp(out, this.#recorder.writeFeedback(out, 0, 1, 2));
      if (packet?.type !== "transport-feedback") throw new Error("not feedback");
      this.#back.push({ atMs: this.nowMs + this.returnDelayMs, data: packet.data.slice(packet.start, packet.end) });
    }
  }

  #choose(): void {
    const layers = LAYERS.map((layer, i) => ({ ...layer, live: i < this.published }));
    const request = { id: "c", kind: "camera", layers, paused: !this.watched, priority: 0 } as const;
    const options = { hasTransportSequence: true, canProbe: this.#layer >= 0, willProbe: true };
    const { decisions, stopsImmediately, defersKeyframes, probe } = this.#planner.plan([request], options, this.nowMs);
    const chosen = decisions[0]?.layer ?? -1;
    // A layer begins with a keyframe, and what is larger may have to end before.
    const layer =
      !defersKeyframes || chosen <= -1 ? chosen : stopsImmediately && chosen < this.#layer ? -1 : this.#layer;
    if (layer !== this.#layer) this.layers.push({ atMs: this.nowMs, layer });
    this.#layer = layer;
    if (probe === undefined) return;
    this.probes += 1;
    this.#probe = { plan: probe, startedMs: this.nowMs, sentBytes: 0 };
  }
}
