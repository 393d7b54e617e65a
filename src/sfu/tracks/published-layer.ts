/** One stream a publisher sends: the only one of a track, or one of its simulcast layers. */
import type { Layer } from "../../protocol/room-records.ts";
import { LayerRate } from "../bandwidth/rate-meter.ts";
import { Audience } from "../forwarding/audience.ts";
import type { ReceivedReport } from "../forwarding/sender-report.ts";
import { NackGenerator } from "../wire/rtcp/nack-generator.ts";
import { Reception } from "../wire/rtcp/reception.ts";
import { PacketRing } from "../wire/rtp/packet-ring.ts";
import { StreamClock } from "./publisher-clock.ts";

/** Keyframes are large: one request serves everyone who asks within this time. */
const KEYFRAME_INTERVAL_MS = 500;
/** A layer the publisher has stopped encoding falls silent: for several of its frames, or for this long at least and at most. */
const SILENT_FRAMES = 6;
const MIN_SILENCE_MS = 400;
const MAX_SILENCE_MS = 2_000;
/** All layers of a track share a path: when only this one is missing so many frames, it has ended. */
const OVERTAKEN_FRAMES = 3;
const MIN_OVERTAKEN_MS = 150;
const STRAGGLERS_MS = 2_000;

export const LAYER_NAMES = ["low", "medium", "high"] as const satisfies readonly Layer[];
const RID_INDEX: Record<string, number> = { q: 0, h: 1, f: 2 };

/** Position of a rid among the three layers: by its well-known name, else by its place in the offer. */
export function layerIndex(rid: string | null, rids: readonly string[]): number {
  if (rid === null) return 0;
  return RID_INDEX[rid] ?? Math.max(0, rids.indexOf(rid));
}

export class PublishedLayer {
  readonly index: number;
  readonly rid: string | null;
  /** 0 until the first packet. */
  ssrc = 0;
  reception: Reception | null = null;
  /** Another one for each stream: they have numbers of their own. */
  ring = new PacketRing();
  clock = new StreamClock();
  /** That its retransmissions come with; 0 before the first. */
  repairSsrc = 0;
  /** Viewers who get all of it. */
  readonly audience = new Audience();
  readonly nack = new NackGenerator();
  /** What it takes to forward it. */
  readonly rate = new LayerRate();
  /** From the newest keyframe; 0 when the codec does not say. */
  height = 0;
  lastFrameMs = 0;
  #frameGapMs = MAX_SILENCE_MS / SILENT_FRAMES;
  #timestamp = -1;
  senderReport: ReceivedReport | null = null;
  #keyframeAskedMs = Number.NEGATIVE_INFINITY;
  #keyframeWanted = false;
  #keyframeDue = false;
  readonly #onUrgent: () => void;
  /** Of streams that others have replaced, and when: what is still under way of them is nobody's. */
  readonly #former = new Map<number, number>();
  #keyframe: { extended: number; atMs: number } | null = null;

  constructor(index: number, rid: string | null, onUrgent: () => void = () => {}) {
    this.#onUrgent = onUrgent;
    this.index = index;
    this.rid = rid;
  }

  /** `newestMs`: when the last frame came, on whichever layer of the track. */
  isLive(nowMs: number, newestMs: number): boolean {
    const patienceMs = Math.min(MAX_SILENCE_MS, Math.max(MIN_SILENCE_MS, this.#frameGapMs * SILENT_FRAMES));
    const overtakenMs = Math.max(MIN_OVERTAKEN_MS, this.#frameGapMs * OVERTAKEN_FRAMES);
    return this.ssrc !== 0 && nowMs - this.lastFrameMs < patienceMs && newestMs - this.lastFrameMs < overtakenMs;
  }

  /** A packet with content. */
  received(timestamp: number, bytes: number, nowMs: number): void {
    this.rate.add(bytes, nowMs);
    if (timestamp !== this.#timestamp) {
      const gapMs = Math.min(MAX_SILENCE_MS, nowMs - this.lastFrameMs);
      this.#frameGapMs += (gapMs - this.#frameGapMs) / 8;
      this.#timestamp = timestamp;
    }
    this.lastFrameMs = nowMs;
  }

  /** The first packet, or the track goes on as another stream: numbers start anew. */
  restart(ssrc: number, clockRate: number, nowMs: number): void {
    for (const former of [this.ssrc, this.repairSsrc]) if (former !== 0) this.#former.set(former, nowMs);
    this.#former.delete(ssrc);
    this.ssrc = ssrc;
    this.repairSsrc = 0;
    this.ring = new PacketRing();
    this.clock = new StreamClock();
    this.reception = new Reception(ssrc, clockRate);
    this.nack.reset();
    this.senderReport = null;
    this.#keyframe = null;
  }

  /** The publisher's clock lies elsewhere by so much than was known when it reported. */
  clockMoved(byMs: number): void {
    const report = this.senderReport;
    if (!report) return;
    const { ntpMs, rtpTimestamp } = report.reference;
    this.senderReport = { ...report, reference: { ntpMs: ntpMs + byMs, rtpTimestamp } };
  }

  /** A straggler of a stream that this one has replaced. */
  isStraggler(ssrc: number, nowMs: number): boolean {
    const replacedMs = this.#former.get(ssrc);
    if (replacedMs === undefined) return false;
    if (nowMs - replacedMs < STRAGGLERS_MS) return true;
    this.#former.delete(ssrc);
    return false;
  }

  /** Asked for, and not here yet. */
  get keyframeDue(): boolean {
    return this.#keyframeDue;
  }

  requestKeyframe(): void {
    this.#keyframeWanted = true;
    this.#keyframeDue = true;
    this.#onUrgent();
  }

  /** Something is to be asked of the publisher. */
  get needsFeedbackNow(): boolean {
    return this.#keyframeWanted || this.nack.missing > 0 || this.nack.wantsKeyframe;
  }

  keyframeArrived(sequenceNumber: number, height: number): void {
    this.#keyframeWanted = false;
    this.#keyframeDue = false;
    if (height > 0) this.height = height;
    this.nack.keyframeReceived(sequenceNumber);
  }

  /** Newcomers may begin here from now on. */
  keyframeForwarded(extended: number, nowMs: number): void {
    if (extended > (this.#keyframe?.extended ?? -1)) this.#keyframe = { extended, atMs: nowMs };
  }

  /** What is sent from here on, or was until here, is for nobody. */
  muted(): void {
    this.#keyframe = null;
  }

  /** Where a newcomer can begin at once, as no other keyframe may be asked for yet; null when it has to wait for one. */
  recentKeyframe(nowMs: number): number | null {
    const keyframe = this.#keyframe;
    return keyframe && nowMs - keyframe.atMs < KEYFRAME_INTERVAL_MS ? keyframe.extended : null;
  }

  /** True when a request is to be sent now. */
  takeKeyframeRequest(nowMs: number): boolean {
    if (this.nack.takeKeyframeRequest()) this.#keyframeWanted = true;
    if (!this.#keyframeWanted || nowMs - this.#keyframeAskedMs < KEYFRAME_INTERVAL_MS) return false;
    this.#keyframeAskedMs = nowMs;
    this.#keyframeWanted = false;
    return true;
  }
}
