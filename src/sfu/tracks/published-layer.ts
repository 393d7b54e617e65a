/** One stream of a published track: its only one, or one of its simulcast layers. */
import type { Layer, TrackKind } from "../../protocol/room-records.ts";
import { LayerRate } from "../bandwidth/rate-meter.ts";
import { FanOutGroup } from "../fast-path/fan-out-group.ts";
import { ALL_SPATIAL } from "../forwarding/forwarder.ts";
import type { ReceivedReport } from "../forwarding/sender-report.ts";
import { AUDIO_REPAIR, NackGenerator, VIDEO_REPAIR } from "../wire/rtcp/nack-generator.ts";
import { Reception } from "../wire/rtcp/reception.ts";
import { PacketRing } from "../wire/rtp/packet-ring.ts";
import { StreamClock } from "./publisher-clock.ts";
import { TemporalLayers } from "./temporal-layers.ts";

/** Keyframes are large, so one request serves all subscribers within this time. */
const KEYFRAME_INTERVAL_MS = 500;
/** A layer counts as stopped after several missing frames, within these bounds. */
const SILENT_FRAMES = 6;
const MIN_SILENCE_MS = 400;
const MAX_SILENCE_MS = 2_000;
/** All layers of a track share a path, so a layer that alone misses this many frames has stopped. */
const OVERTAKEN_FRAMES = 3;
const MIN_OVERTAKEN_MS = 150;
const STRAGGLERS_MS = 2_000;

export const LAYER_NAMES = ["low", "medium", "high"] as const satisfies readonly Layer[];
const RID_INDEX: ReadonlyMap<string, number> = new Map([
  ["q", 0],
  ["h", 1],
  ["f", 2],
]);

/** The position of a rid among the three layers: by its well-known name, else by its position in the offer. */
export function layerIndex(rid: string | null, rids: readonly string[]): number {
  if (rid === null) return 0;
  return RID_INDEX.get(rid) ?? Math.max(0, rids.indexOf(rid));
}

export class PublishedLayer {
  readonly index: number;
  /** A subscriber of a simulcast layer gets all its spatial layers. */
  readonly spatial = ALL_SPATIAL;
  readonly rid: string | null;
  /** 0 until the first packet. */
  ssrc = 0;
  reception: Reception | null = null;
  /** Replaced with each new stream, because each stream has its own numbers. */
  ring = new PacketRing();
  clock = new StreamClock();
  /** The SSRC of its retransmissions; 0 before the first. */
  repairSsrc = 0;
  /** The subscribers that get all packets of the layer. */
  readonly group = new FanOutGroup();
  readonly nack: NackGenerator;
  readonly rate = new LayerRate();
  /** The height in pixels, from the newest keyframe; 0 when it is unknown. */
  height = 0;
  lastFrameMs = 0;
  readonly temporal = new TemporalLayers();
  #frameGapMs = MAX_SILENCE_MS / SILENT_FRAMES;
  #timestamp = -1;
  senderReport: ReceivedReport | null = null;
  #keyframeAskedMs = Number.NEGATIVE_INFINITY;
  #keyframeWanted = false;
  #keyframeDue = false;
  readonly #onUrgentFeedback: () => void;
  /** The SSRCs of replaced streams, with the time of the replacement. Their late packets are ignored. */
  readonly #replaced = new Map<number, number>();
  #keyframe: { extended: number; atMs: number } | null = null;

  constructor(kind: TrackKind, index: number, rid: string | null, onUrgentFeedback: () => void = () => {}) {
    this.nack = new NackGenerator(kind === "audio" ? AUDIO_REPAIR : VIDEO_REPAIR);
    this.#onUrgentFeedback = onUrgentFeedback;
    this.index = index;
    this.rid = rid;
  }

  get framesPerSecond(): number {
    return 1_000 / this.#frameGapMs;
  }

  get stream(): PublishedLayer {
    return this;
  }

  /** `newestMs` is the time of the newest frame on any layer of the track. */
  isLive(nowMs: number, newestMs: number): boolean {
    const patienceMs = Math.min(MAX_SILENCE_MS, Math.max(MIN_SILENCE_MS, this.#frameGapMs * SILENT_FRAMES));
    const overtakenMs = Math.max(MIN_OVERTAKEN_MS, this.#frameGapMs * OVERTAKEN_FRAMES);
    return this.ssrc !== 0 && nowMs - this.lastFrameMs < patienceMs && newestMs - this.lastFrameMs < overtakenMs;
  }

  /** Counts a packet with a payload. */
  received(timestamp: number, bytes: number, nowMs: number): void {
    this.rate.add(bytes, nowMs);
    if (timestamp !== this.#timestamp) {
      const gapMs = Math.min(MAX_SILENCE_MS, nowMs - this.lastFrameMs);
      this.#frameGapMs += (gapMs - this.#frameGapMs) / 8;
      this.#timestamp = timestamp;
    }
    this.lastFrameMs = nowMs;
  }

  /** Called with the first packet, and again when the track continues with a new SSRC and new sequence numbers. */
  restart(ssrc: number, clockRate: number, nowMs: number): void {
    for (const former of [this.ssrc, this.repairSsrc]) if (former !== 0) this.#replaced.set(former, nowMs);
    this.#replaced.delete(ssrc);
    this.ssrc = ssrc;
    this.repairSsrc = 0;
    this.ring = new PacketRing();
    this.clock = new StreamClock();
    this.reception = new Reception(ssrc, clockRate);
    this.nack.reset();
    this.senderReport = null;
    this.#keyframe = null;
  }

  /** Moves the last sender report after the publisher's clock was corrected. */
  clockMoved(byMs: number): void {
    const report = this.senderReport;
    if (!report) return;
    const { ntpMs, rtpTimestamp } = report.reference;
    this.senderReport = { ...report, reference: { ntpMs: ntpMs + byMs, rtpTimestamp } };
  }

  /** Is true for a late packet of a replaced stream. */
  isStraggler(ssrc: number, nowMs: number): boolean {
    const replacedMs = this.#replaced.get(ssrc);
    if (replacedMs === undefined) return false;
    if (nowMs - replacedMs < STRAGGLERS_MS) return true;
    this.#replaced.delete(ssrc);
    return false;
  }

  /** A keyframe was requested and has not arrived yet. */
  get keyframeDue(): boolean {
    return this.#keyframeDue;
  }

  requestKeyframe(): void {
    this.#keyframeWanted = true;
    this.#keyframeDue = true;
    this.#onUrgentFeedback();
  }

  /** A packet or a keyframe has to be requested from the publisher. */
  get needsFeedbackNow(): boolean {
    return this.#keyframeWanted || this.nack.missing > 0 || this.nack.wantsKeyframe;
  }

  keyframeArrived(sequenceNumber: number, height: number): void {
    this.#keyframeWanted = false;
    this.#keyframeDue = false;
    if (height > 0) this.height = height;
    this.nack.keyframeReceived(sequenceNumber);
  }

  /** New subscribers may start at this keyframe from now on. */
  keyframeForwarded(extended: number, nowMs: number): void {
    if (extended > (this.#keyframe?.extended ?? -1)) this.#keyframe = { extended, atMs: nowMs };
  }

  /** No subscriber may start at a keyframe from before the track was muted or unmuted. */
  muted(): void {
    this.#keyframe = null;
  }

  /** The keyframe where a new subscriber can start at once; null when it has to wait for the next. */
  recentKeyframe(nowMs: number): number | null {
    const keyframe = this.#keyframe;
    return keyframe && nowMs - keyframe.atMs < KEYFRAME_INTERVAL_MS ? keyframe.extended : null;
  }

  takeKeyframeRequest(nowMs: number): boolean {
    if (this.nack.takeKeyframeRequest()) this.#keyframeWanted = true;
    if (!this.#keyframeWanted || nowMs - this.#keyframeAskedMs < KEYFRAME_INTERVAL_MS) return false;
    this.#keyframeAskedMs = nowMs;
    this.#keyframeWanted = false;
    return true;
  }
}
