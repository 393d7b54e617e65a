/** A viewer of all tracks: its estimate, the layer that it is sent of each track, and the packets that arrive. */
import type { LayerRequest } from "../../../src/sfu/bandwidth/layer-chooser.ts";
import { BandwidthPlanner } from "../../../src/sfu/bandwidth/planner.ts";
import type { ProbePlan } from "../../../src/sfu/bandwidth/probe.ts";
import { parseRtcp } from "../../../src/sfu/wire/rtcp/rtcp.ts";
import { MAX_TWCC_BYTES, TwccRecorder } from "../../../src/sfu/wire/rtcp/twcc.ts";
import { SentPackets, TransportFeedback } from "../../../src/sfu/wire/rtcp/twcc-feedback.ts";
import type { SimulatedFrame } from "./simulated-call.ts";
import type { SimulatedTrack, TrackPacket } from "./simulated-track.ts";

const REPORT_MS = 100;
const RETURN_DELAY_MS = 30;
const REPAIR_MS = 90;
/** After this long without a complete frame, a keyframe is requested. */
const BROKEN_MS = 300;
const PAUSED = -1;
const NO_FRAME: SimulatedFrame = { track: PAUSED, isLast: false, run: 0, layer: PAUSED };

type Shown = {
  target: number;
  current: number;
  run: number;
  /** Packets that have not got through, without which nothing after them can be shown. */
  lost: Set<SimulatedFrame>;
  brokenSinceMs: number | undefined;
};
type Send = (bytes: number, sequence: number, frame: SimulatedFrame) => boolean;

export class SimulatedViewer {
  readonly planner = new BandwidthPlanner();
  receivedBytes = 0;
  probes = 0;
  readonly changes: { atMs: number; track: number; layer: number }[] = [];
  /** When each complete frame of any video arrived. */
  readonly frames: { atMs: number; layer: number }[] = [];
  readonly #tracks: readonly SimulatedTrack[];
  readonly #shown: Shown[];
  readonly #send: Send;
  readonly #sent = new SentPackets();
  readonly #recorder = new TwccRecorder();
  readonly #feedback = new TransportFeedback();
  readonly #reports: { atMs: number; data: Uint8Array }[] = [];
  readonly #repairs: { atMs: number; bytes: number; frame: SimulatedFrame }[] = [];
  readonly #phaseMs: number;
  #probe: { plan: ProbePlan; startedMs: number; sentBytes: number } | undefined;

  constructor(tracks: readonly SimulatedTrack[], nowMs: number, random: () => number, send: Send) {
    this.#tracks = tracks;
    this.#send = send;
    this.#phaseMs = Math.floor(random() * REPORT_MS);
    this.#shown = tracks.map(() => ({
      target: PAUSED,
      current: PAUSED,
      run: 0,
      lost: new Set(),
      brokenSinceMs: undefined,
    }));
    this.#choose(nowMs);
  }

  layerOf(track: number): number {
    return this.#shown[track]?.target ?? PAUSED;
  }

  forward(packet: TrackPacket, nowMs: number): void {
    const index = this.#tracks.indexOf(packet.track);
    const shown = this.#shown[index];
    if (!shown) return;
    const isAudio = packet.track.shape.kind === "audio";
    if (packet.layer === shown.target && ((packet.keyframe && packet.isFirst) || isAudio)) shown.current = shown.target;
    if (packet.layer !== shown.current) return;
    if (packet.keyframe && packet.isFirst) {
      shown.run += 1;
      shown.lost.clear();
    }
    const frame = { track: isAudio ? PAUSED : index, isLast: packet.isLast, run: shown.run, layer: packet.layer };
    if (!this.#transmit(packet.bytes, 0, frame, nowMs)) shown.lost.add(frame);
  }

  /** Whether the packet was not dropped on the way. */
  #transmit(bytes: number, probe: number, frame: SimulatedFrame, nowMs: number): boolean {
    const sequence = this.#sent.next(bytes, nowMs, probe);
    const isUnderWay = this.#send(bytes, sequence, frame);
    if (!isUnderWay && frame.track >= 0) this.#repairs.push({ atMs: nowMs + REPAIR_MS, bytes, frame });
    return isUnderWay;
  }

  receive(sequence: number, frame: SimulatedFrame, bytes: number, nowMs: number): void {
    this.receivedBytes += bytes;
    this.#recorder.record(sequence, nowMs);
    const shown = this.#shown[frame.track];
    if (!shown || frame.run !== shown.run) return;
    shown.lost.delete(frame);
    if (shown.lost.size === 0) shown.brokenSinceMs = undefined;
    else shown.brokenSinceMs ??= nowMs;
    if (frame.isLast && shown.lost.size === 0) this.frames.push({ atMs: nowMs, layer: frame.layer });
  }

  /** The path of its reports. A replacement must call `reported` at its end. */
  wayBack = (data: Uint8Array, nowMs: number): void => this.reported(data, nowMs + RETURN_DELAY_MS);

  reported(data: Uint8Array, atMs: number): void {
    this.#reports.push({ atMs, data });
  }

  step(nowMs: number): void {
    while (this.#repairs[0] && this.#repairs[0].atMs <= nowMs) {
      const { bytes, frame } = this.#repairs.shift() as { bytes: number; frame: SimulatedFrame };
      const shown = this.#shown[frame.track];
      if (!shown || shown.current === PAUSED || frame.run !== shown.run) continue;
      if (this.planner.takeRepair(bytes, nowMs)) this.#transmit(bytes, 0, frame, nowMs);
      else this.#repairs.push({ atMs: nowMs + REPAIR_MS, bytes, frame });
    }
    this.#sendProbe(nowMs);
    if ((nowMs + this.#phaseMs) % REPORT_MS === 0) this.#report(nowMs);
    while (this.#reports[0] && this.#reports[0].atMs <= nowMs) {
      const { data } = this.#reports.shift() as { data: Uint8Array };
      if (!this.#feedback.parse(data)) continue;
      this.planner.estimator.onFeedback(this.#feedback, this.#sent, nowMs);
      if (this.planner.isDue(nowMs)) this.#choose(nowMs);
    }
    if ((nowMs + this.#phaseMs) % 100 !== 0) return;
    const begins = this.#tracks.some(({ beginsMs }) => beginsMs > nowMs - 100 && beginsMs <= nowMs);
    if (begins || this.planner.isDue(nowMs)) this.#choose(nowMs);
    for (const [index, { target, current, brokenSinceMs }] of this.#shown.entries()) {
      const isBroken = brokenSinceMs !== undefined && nowMs - brokenSinceMs > BROKEN_MS;
      if (target !== PAUSED && (target !== current || isBroken)) this.#tracks[index]?.askKeyframe(target, nowMs);
    }
  }

  #report(nowMs: number): void {
    const out = new Uint8Array(MAX_TWCC_BYTES);
    while (this.#recorder.pending) {
      const [packet] = parseRtcp(out, this.#recorder.writeFeedback(out, 0, 1, 2));
      if (packet?.type !== "transport-feedback") throw new Error("not feedback");
      this.wayBack(packet.data.slice(packet.start, packet.end), nowMs);
    }
  }

  #choose(nowMs: number): void {
    const requests = this.#tracks.map(
      ({ shape, rates, beginsMs }, track): LayerRequest => ({
        id: String(track),
        kind: shape.kind,
        layers: shape.layers.map(({ height }, layer) => ({
          bitrate: rates[layer]?.bitsPerSecond(nowMs) ?? 0,
          isNew: rates[layer]?.isNew(nowMs) ?? false,
          height,
          live: nowMs >= beginsMs,
        })),
        paused: false,
        priority: 0,
      }),
    );
    const canProbe = this.#shown.some(
      ({ current }, track) => current !== PAUSED && this.#tracks[track]?.shape.kind !== "audio",
    );
    const willProbe = this.#tracks.some(({ shape }) => shape.kind !== "audio");
    const options = { hasTransportSequence: true, canProbe, willProbe };
    const { decisions, stopsImmediately, defersKeyframes, probe } = this.planner.plan(requests, options, nowMs);
    for (const { id, layer } of decisions) {
      const shown = this.#shown[Number(id)];
      if (!shown || shown.target === layer) continue;
      if (layer === PAUSED || (stopsImmediately && layer < shown.current)) shown.current = shown.target = PAUSED;
      if (defersKeyframes && layer !== PAUSED && layer !== shown.current) continue;
      this.changes.push({ atMs: nowMs, track: Number(id), layer });
      shown.target = layer;
    }
    if (probe === undefined) return;
    this.probes += 1;
    this.#probe = { plan: probe, startedMs: nowMs, sentBytes: 0 };
  }

  #sendProbe(nowMs: number): void {
    const probe = this.#probe;
    if (probe === undefined) return;
    const due = (probe.plan.bytes * (nowMs - probe.startedMs)) / probe.plan.durationMs;
    for (; probe.sentBytes < Math.min(due, probe.plan.bytes); probe.sentBytes += 900)
      this.#transmit(900, probe.plan.id, NO_FRAME, nowMs);
    if (probe.sentBytes >= probe.plan.bytes) this.#probe = undefined;
  }

  /** The longest time without a new frame of any video, from `fromMs` on. */
  longestStandstillMs(fromMs: number, nowMs: number): number {
    let longest = 0;
    let before = fromMs;
    const framesMs = this.frames.map(({ atMs }) => atMs).filter((atMs) => atMs >= fromMs && atMs < nowMs);
    for (const at of [...framesMs, nowMs]) {
      longest = Math.max(longest, at - before);
      before = at;
    }
    return longest;
  }
}
