/**
 * A media section on which the server sends. Its SSRC, sequence numbers and history live as long as the connection,
 * whatever tracks use it one after another: a browser treats a restart of the sequence numbers as a fault.
 */
import { randomBytes } from "node:crypto";
import { MediaError } from "../../protocol/media-node.ts";
import type { TrackKind } from "../../protocol/room-records.ts";
import { GroupForwarder } from "../fast-path/group-forwarder.ts";
import { GroupNackResponder } from "../fast-path/group-nack-responder.ts";
import { createTarget, type FanOutTarget, type FanOutTransport } from "../forwarding/fan-out-target.ts";
import { firstSequence, PAUSED } from "../forwarding/forwarder.ts";
import { type ReceivedReport, SentReports } from "../forwarding/sender-report.ts";
import type { UdpPort } from "../transport/udp.ts";
import { primaryOfRed } from "../wire/codec/red.ts";
import type { TransportSequence } from "../wire/rtcp/twcc-feedback.ts";
import { RtpView } from "../wire/rtp/rtp.ts";
import { OutgoingExtensions } from "../wire/rtp/rtp-extensions.ts";
import { RtxStream } from "../wire/rtp/rtx.ts";
import type { AnsweredSection, OutgoingStream } from "../wire/sdp/answer.ts";
import { matchCodec, mediaCodecOf, type NegotiatedCodec } from "../wire/sdp/codecs.ts";
import { FORWARDED_EXTENSION_URI, type ForwardedExtension, type NegotiatedExtensions } from "../wire/sdp/extensions.ts";

const PASSED = ["audioLevel", ...(Object.keys(FORWARDED_EXTENSION_URI) as ForwardedExtension[])] as const;

/** How far back a probe looks for packets to repeat. */
const PROBE_HISTORY = 64;

/** The parts of a track that a section uses. */
type SectionSource = {
  codec: NegotiatedCodec | null;
  extensions: NegotiatedExtensions;
  layers: readonly { index: number; senderReport: ReceivedReport | null }[];
};

export type RepairTerms = {
  rttMs: number;
  /** Returns whether the path has capacity for `bytes` of retransmissions. */
  take(bytes: number): boolean;
};

export class OutgoingSection {
  readonly mid: string;
  readonly kind: TrackKind;
  readonly stream: OutgoingStream;
  /** Is false while the client offers the section as inactive. */
  usable = true;
  /** The track is redundant audio that this subscriber did not negotiate, so it gets the newest frame of each packet. */
  unwrapsRed = false;
  /** Null until a track is attached and the connection is up. */
  target: FanOutTarget | null = null;
  forwarder: GroupForwarder | null = null;
  /** Created for the first track, because its history takes memory. */
  responder: GroupNackResponder | null = null;
  senderReportDueMs = 0;
  readonly sentReports = new SentReports();
  readonly #rtx: RtxStream;
  #codecs: NegotiatedCodec[];
  #extensions: NegotiatedExtensions;
  #codec: NegotiatedCodec | null = null;
  #repairTarget: FanOutTarget | null = null;
  readonly #view = new RtpView();
  readonly #primary = new RtpView();
  #probeBack = 0;
  readonly #random: () => number;
  readonly #fraction = () => this.#random() / 0x100000000;

  /** `random` returns unpredictable 32-bit integers. */
  constructor(section: AnsweredSection, kind: TrackKind, random: () => number = randomWord) {
    this.mid = section.mid;
    this.kind = kind;
    this.#random = random;
    this.stream = { ssrc: Math.max(1, random()), rtxSsrc: Math.max(1, random()) };
    this.#rtx = new RtxStream(this.stream.rtxSsrc, firstSequence(this.#fraction));
    this.#codecs = section.codecs;
    this.#extensions = section.extensions;
  }

  renegotiated(section: AnsweredSection): void {
    this.#codecs = section.codecs;
    this.#extensions = section.extensions;
  }

  get usesTransportSequence(): boolean {
    return this.#extensions.transportSequence > 0;
  }

  /** Is true when the subscriber gets exactly the packets of the group. */
  get canJoinFanOutGroup(): boolean {
    return this.target !== null && !this.unwrapsRed && this.target.transport.deliver === undefined;
  }

  /** Is true when the subscriber gets redundant audio, from which it recovers lost packets by itself. */
  get sendsRed(): boolean {
    return this.#codec?.codec === "red";
  }

  get readsDependencies(): boolean {
    return this.#extensions.dependencyDescriptor > 0;
  }

  get clockRate(): number {
    return this.#codec?.clockRate ?? 90_000;
  }

  get codecs(): readonly NegotiatedCodec[] {
    return this.#codecs;
  }

  /** Starts sending the source with this subscriber's codec and extensions; returns false when it cannot decode the source. */
  attach(source: SectionSource, transport: FanOutTransport): boolean {
    const published = source.codec;
    const direct = published && matchCodec(published, this.#codecs);
    this.unwrapsRed = published?.codec === "red" && !direct;
    const codec = this.unwrapsRed ? (this.#codecs.find(({ codec: name }) => name === "opus") ?? null) : direct;
    this.#codec = codec;
    if (!codec) {
      this.forwarder?.leave();
      this.target = null;
      return false;
    }
    const format = { codec: mediaCodecOf(codec), payloadType: codec.payloadType, clockRate: codec.clockRate };
    if (this.forwarder) this.forwarder.switchSource(format);
    else {
      this.forwarder = new GroupForwarder({
        ssrc: this.stream.ssrc,
        ...format,
        firstSequence: firstSequence(this.#fraction),
        firstTimestamp: this.#random(),
      });
    }
    if (this.kind === "video" || codec.nack) this.responder ??= new GroupNackResponder();
    this.responder?.clear();
    for (const layer of source.layers) {
      if (layer.senderReport) this.forwarder.setSenderReport(layer.index, layer.senderReport.reference);
    }
    const extensions = new OutgoingExtensions({
      mid: { id: this.#extensions.mid, value: this.mid },
      absSendTimeId: this.#extensions.absSendTime,
      transportSequenceId: this.#extensions.transportSequence,
      twoByte: describesDependencies(codec),
      passThrough: PASSED.flatMap((name) => {
        if (name === "dependencyDescriptor" && !describesDependencies(codec)) return [];
        const from = source.extensions[name];
        const to = this.#extensions[name];
        return from > 0 && to > 0 ? [{ from, to }] : [];
      }),
    });
    this.target = createTarget(transport, extensions);
    this.#repairTarget = createTarget(transport, extensions);
    return true;
  }

  detach(): void {
    this.forwarder?.setTarget(-1);
    this.target = null;
    this.responder?.clear();
  }

  /** A probe repeats packets that were sent before, which needs RTX. */
  get canProbe(): boolean {
    return this.target !== null && this.usesTransportSequence && (this.#codec?.rtxPayloadType ?? null) !== null;
  }

  /** Repeats a recent packet as part of a probe; returns its size, or 0 when there is none. */
  probe(sequence: TransportSequence, probe: number, udp: UdpPort, nowMs: number): number {
    const target = this.#repairTarget;
    const payloadType = this.#codec?.rtxPayloadType ?? null;
    if (!target || !this.responder || !this.target || payloadType === null) return 0;
    const newest = this.forwarder?.lastOutgoing ?? 0;
    for (let i = 0; i < PROBE_HISTORY; i++) {
      this.#probeBack = (this.#probeBack + 1) % PROBE_HISTORY;
      const sequenceNumber = (newest - this.#probeBack) & 0xffff;
      if (!this.responder.repeat(sequenceNumber, nowMs, this.#view, target, { stream: this.#rtx, payloadType }))
        continue;
      target.sentAtMs = nowMs;
      target.transportSequence = sequence.next(this.#view.length, nowMs, probe);
      udp.fanOut(this.#view, [target], 1);
      udp.schedule();
      return this.#view.length;
    }
    return 0;
  }

  /** Retransmits lost packets, over RTX when it was negotiated. Returns the bytes sent. */
  repair(
    lost: readonly number[],
    sequence: TransportSequence,
    { rttMs, take }: RepairTerms,
    udp: UdpPort,
    nowMs: number,
  ): number {
    const target = this.#repairTarget;
    const rtxPayloadType = this.#codec?.rtxPayloadType ?? null;
    if (!target || !this.responder || !this.target) return 0;
    // After a pause a keyframe follows, so packets from before it are useless.
    if (this.forwarder?.currentLayer === PAUSED) return 0;
    const rtx = rtxPayloadType === null ? undefined : { stream: this.#rtx, payloadType: rtxPayloadType };
    target.ssrc = this.stream.ssrc;
    // The same number is sent again, so its rollover counter follows from the newest that was sent.
    if (!rtx && this.forwarder?.slot) target.transport.srtp.advanceTo(target.ssrc, this.forwarder.lastOutgoing);
    let bytes = 0;
    for (const sequenceNumber of lost) {
      if (!this.responder.answer(sequenceNumber, nowMs, rttMs, this.#view, target, rtx)) continue;
      if (!take(this.#view.length)) break;
      if (rtx) {
        target.sentAtMs = nowMs;
        if (this.usesTransportSequence) target.transportSequence = sequence.next(this.#view.length, nowMs);
      } else if (this.usesTransportSequence) sequence.sentAgain(target.transportSequence);
      const packet = this.unwrapsRed ? this.#primary : this.#view;
      if (this.unwrapsRed && !primaryOfRed(this.#view, packet)) continue;
      udp.fanOut(packet, [target], 1);
      bytes += this.#view.length;
    }
    udp.schedule();
    return bytes;
  }
}

/** Each simulcast layer of VP8 and H.264 has its own frame numbers: dependency descriptors would be wrong after a switch. */
function describesDependencies({ codec }: NegotiatedCodec): boolean {
  return codec === "AV1" || codec === "VP9";
}

function randomWord(): number {
  return randomBytes(4).readUInt32BE(0);
}

/** The sections on which one subscriber receives. */
export class OutgoingSections {
  readonly #byMid = new Map<string, OutgoingSection>();
  readonly #bySsrc = new Map<number, OutgoingSection>();

  get streams(): ReadonlyMap<string, OutgoingStream> {
    return new Map([...this.#byMid].map(([mid, section]) => [mid, section.stream]));
  }

  get usable(): OutgoingSection[] {
    return [...this.#byMid.values()].filter((section) => section.usable);
  }

  /** Returns the section; throws when the client's last offer has no such receiving section. */
  at(mid: string): OutgoingSection {
    const section = this.#byMid.get(mid);
    if (!section?.usable) throw new MediaError("NEGOTIATION_FAILED", `The connection has no receiving section ${mid}.`);
    return section;
  }

  bySsrc(ssrc: number): OutgoingSection | undefined {
    return this.#bySsrc.get(ssrc);
  }

  /** Calls `vacate` with each section on which the server can no longer send. */
  negotiated(sections: readonly AnsweredSection[], vacate: (section: OutgoingSection) => void): void {
    const sending = new Map(sections.map((section) => [section.mid, section.sends]));
    const rested = new Set([...this.#byMid.values()].filter(({ usable }) => !usable));
    for (const [mid, section] of this.#byMid) {
      if (!sending.get(mid)) vacate(section);
      section.usable = sending.get(mid) ?? false;
      // An offer has every section that its connection ever had, so one that it lacks never comes back.
      if (!sending.has(mid)) this.#forget(section);
    }
    for (const section of sections) {
      if (!section.sends || section.kind === "application") continue;
      const known = this.#byMid.get(section.mid);
      // Browsers ignore a stream that returns with the SSRC it had before its section became inactive.
      if (known && rested.has(known)) this.#forget(known);
      if (known && !rested.has(known)) known.renegotiated(section);
      else {
        const outgoing = new OutgoingSection(section, section.kind);
        this.#byMid.set(section.mid, outgoing);
        this.#bySsrc.set(outgoing.stream.ssrc, outgoing);
      }
    }
  }

  #forget(section: OutgoingSection): void {
    this.#byMid.delete(section.mid);
    this.#bySsrc.delete(section.stream.ssrc);
  }

  clear(): void {
    this.#byMid.clear();
    this.#bySsrc.clear();
  }
}
