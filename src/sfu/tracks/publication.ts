/** A published track: its layers, and the subscribers to which their packets are forwarded. */
import type { Track, TrackKind, TrackSource } from "../../protocol/room-records.ts";
import type { PublishedSection } from "../../protocol/signaling.ts";
import type { PacketRun, ReceiveBatch } from "../fast-path/receive-batch.ts";
import type { FastStreamTerms } from "../fast-path/stream-table.ts";
import type { FanOutTarget } from "../forwarding/fan-out-target.ts";
import type { SourcePacket, TemporalPosition } from "../forwarding/source-packet.ts";
import type { UdpPort } from "../transport/udp.ts";
import { KeyframeStart, keyframeHeight, type MediaCodec } from "../wire/codec/keyframe.ts";
import { primaryOfRed } from "../wire/codec/red.ts";
import { Vp8Descriptor } from "../wire/codec/vp8.ts";
import { RtpView } from "../wire/rtp/rtp.ts";
import type { ClockReference } from "../wire/rtp/timestamp-map.ts";
import { mediaCodecOf, type NegotiatedCodec } from "../wire/sdp/codecs.ts";
import type { NegotiatedExtensions } from "../wire/sdp/extensions.ts";
import { LAYER_NAMES, layerIndex, PublishedLayer } from "./published-layer.ts";
import { type SelectableLayer, SpatialLayers } from "./spatial-layers.ts";

/** A receiver of a publication: a participant's subscription, or a recording of the track. */
export interface Subscriber {
  /** The index of the layer with unlimited bandwidth, which the publisher has to encode. */
  readonly desiredLayer: number | null;
  /** The codecs that the subscriber could decode, if it cannot decode the publication's own; otherwise null. */
  readonly readableInstead?: readonly string[] | null;
  /** Set by `forward` when a keyframe's first packet arrived late: the packets from this number on are forwarded again. */
  catchUpFrom: number | null;
  /** The track is redundant audio, and the subscriber gets the newest frame of each packet. */
  readonly unwrapsRed: boolean;
  /** Packets of some temporal layers are left out. */
  readonly readsTemporal?: boolean;
  /** Returns null when the packet is not forwarded to this subscriber. */
  forward(packet: SourcePacket, layer: PublishedLayer, nowMs: number): FanOutTarget | null;
  /** A subscriber with this method gets runs of packets in order, and `forward` only for other packets. */
  forwardRun?(run: PacketRun, batch: ReceiveBatch, layer: PublishedLayer, nowMs: number): void;
  /** Is true while the subscriber gets no packets of the layer, until its settings change or a keyframe comes. */
  ignores(layer: PublishedLayer): boolean;
  /** Called after `forward`; returns true when the subscriber has joined the layer's fan-out group. */
  join(packet: SourcePacket, layer: PublishedLayer, nowMs: number): boolean;
  /** Called with the publication's first packet, and when its codec changes. */
  sourceChanged(): void;
  /** Called when the publisher has begun or ended sending the video in its backup codec. */
  backupChanged?(): void;
  /** Called when a layer continues as another stream. */
  restarted(layer: number): void;
  reported(layer: number, reference: ClockReference): void;
  /** Called when the publisher's clock was corrected, before `reported` is called. */
  clockMoved?(byMs: number): void;
  /** Called with each keyframe, before `forward`. */
  sourceFlows?(layer: PublishedLayer, nowMs: number): void;
  /** Called when the track becomes audible or inaudible. */
  refreshAudio(nowMs: number): void;
}

/** Whether the publisher is connected to this worker, to another one of this node, or to another node. */
type TrackOrigin = "home" | "worker" | "node";

type PublicationOptions = PublishedSection & {
  trackId: string;
  identity: string;
  rids: readonly string[];
  extensions: NegotiatedExtensions;
  udp: UdpPort;
  origin?: TrackOrigin;
  primary?: Publication;
  /** Packets can no longer be forwarded on the fast path. */
  onLeaveFastPath?(publication: Publication): void;
  /** A packet or keyframe has to be requested from the publisher. */
  onUrgentFeedback?(): void;
};

/** Browsers report on audio every five seconds. */
const LOSS_KEPT_MS = 6_000;

export class Publication {
  readonly trackId: string;
  readonly clientTrackId: string;
  readonly identity: string;
  readonly mid: string;
  readonly kind: TrackKind;
  readonly source: TrackSource;
  readonly name: string | null;
  /** The largest recent loss of a subscriber without redundant audio, in 256ths. */
  #downlinkLoss = { fraction: 0, atMs: Number.NEGATIVE_INFINITY };
  readonly encryption: Track["encryption"];
  /** Lowest first. */
  readonly layers: readonly PublishedLayer[];
  readonly extensions: NegotiatedExtensions;
  /** The codecs that the publisher may send. */
  codecs: readonly NegotiatedCodec[] = [];
  readonly origin: TrackOrigin;
  /** For a backup, the track whose video it repeats in another codec, with the same id; null for a track of its own. */
  readonly primary: Publication | null;
  /** The same video in another codec, for subscribers that cannot decode this one. */
  backup: Publication | null = null;
  /** Null until the first packet. A publisher may change it. */
  codec: NegotiatedCodec | null = null;
  /** The first packet has arrived, so the room knows the track. */
  announced = false;
  muted = false;
  /** Is true for the loudest voices, and for all video. */
  audible = true;
  readonly subscriptions: Subscriber[] = [];
  /** Subscribers outside of fan-out groups, whose packets are forwarded one by one. */
  readonly #slowPath: Subscriber[] = [];
  readonly #udp: UdpPort;
  readonly #onLeaveFastPath: () => void;
  readonly #onUrgentFeedback: () => void;
  readonly #rids: readonly string[];
  readonly #targets: FanOutTarget[] = [];
  /** Targets that get the newest frame of each packet of redundant audio. */
  readonly #plainTargets: FanOutTarget[] = [];
  readonly #primary = new RtpView();
  readonly #keyframeStart = new KeyframeStart();
  readonly #packet: SourcePacket;
  /** Null unless the codec can have several spatial layers. */
  #spatial: SpatialLayers | null = null;

  constructor(options: PublicationOptions) {
    this.trackId = options.trackId;
    this.clientTrackId = options.clientTrackId;
    this.identity = options.identity;
    this.mid = options.mid;
    this.kind = options.kind;
    this.source = options.source;
    this.name = options.name ?? null;
    this.encryption = options.encryption;
    this.extensions = options.extensions;
    this.origin = options.origin ?? "home";
    this.primary = options.primary ?? null;
    this.#udp = options.udp;
    this.#onLeaveFastPath = () => options.onLeaveFastPath?.(this);
    this.#rids = options.rids;
    const rids = options.rids.length > 0 ? options.rids : [null];
    const urgent = () => options.onUrgentFeedback?.();
    this.#onUrgentFeedback = urgent;
    const layers = rids.map((rid) => new PublishedLayer(options.kind, layerIndex(rid, options.rids), rid, urgent));
    this.layers = layers.sort((a, b) => a.index - b.index);
    this.#packet = { view: new RtpView(), layer: 0, extended: 0, keyframe: false, vp8: new Vp8Descriptor(), svc: null };
  }

  get isHome(): boolean {
    return this.origin === "home";
  }

  get isSimulcast(): boolean {
    return this.#rids.length > 1;
  }

  get mediaCodec(): MediaCodec {
    return mediaCodecOf(this.codec);
  }

  layerOf(rid: string | null): PublishedLayer | undefined {
    return this.layers.find((layer) => layer.rid === rid);
  }

  layerAt(index: number): PublishedLayer | undefined {
    return this.layers.find((layer) => layer.index === index);
  }

  /** What a subscriber can choose: the simulcast streams, or the spatial layers of the only stream. Lowest first. */
  get choices(): readonly SelectableLayer[] {
    const spatial = this.#spatial?.choices;
    return spatial && spatial.length > 0 ? spatial : this.layers;
  }

  /** A bit mask of the choices that are being sent. */
  liveMask(nowMs: number): number {
    let newestMs = 0;
    for (const layer of this.layers) newestMs = Math.max(newestMs, layer.lastFrameMs);
    let mask = 0;
    for (const layer of this.choices) if (layer.isLive(nowMs, newestMs)) mask |= 1 << layer.index;
    return mask;
  }

  /** The public name of a choice; if there is only one, it is "high". */
  layerName(index: number): (typeof LAYER_NAMES)[number] {
    return this.isSimulcast || this.choices.length > 1 ? (LAYER_NAMES[index] ?? "high") : "high";
  }

  /** Forwards a decrypted packet of the layer, with its unwrapped sequence number, and keeps a copy for retransmission. */
  receive(layer: PublishedLayer, view: RtpView, extended: number, codec: NegotiatedCodec, nowMs: number): void {
    if (this.codec?.payloadType !== codec.payloadType) this.changeCodec(codec);
    if (view.payloadLength > 0) layer.received(view.timestamp, view.length, nowMs);
    layer.ring.put(extended, view.data, view.length, nowMs);
    const packet = this.#packet;
    packet.view = view;
    packet.layer = layer.index;
    packet.extended = extended;
    packet.keyframe = this.#beginsKeyframe(packet, layer);
    packet.svc = this.#spatial && this.#readLayers(this.#spatial, packet, layer, nowMs);
    packet.temporal = this.#readTemporal(packet, layer);
    if (packet.keyframe && this.kind === "video") {
      if (!this.muted) for (const subscriber of this.subscriptions) subscriber.sourceFlows?.(layer, nowMs);
      layer.keyframeArrived(view.sequenceNumber, keyframeHeight(this.mediaCodec, view, packet.vp8));
      if (!this.muted) layer.keyframeForwarded(extended, nowMs);
    }
    if (this.muted) return;
    this.#forward(packet, layer, nowMs);
  }

  #readTemporal({ view, vp8 }: SourcePacket, { temporal }: PublishedLayer): TemporalPosition | null {
    const codec = this.mediaCodec;
    if (codec === "audio" || codec === "h264") return null;
    const isNeeded = this.#slowPath.some(({ readsTemporal }) => readsTemporal);
    return temporal.read(view, codec, this.extensions.dependencyDescriptor, vp8, isNeeded);
  }

  #readLayers(spatial: SpatialLayers, { view }: SourcePacket, { group }: PublishedLayer, nowMs: number) {
    const { choices } = spatial;
    const svc = spatial.read(view, this.mediaCodec, this.extensions.dependencyDescriptor);
    if (svc) spatial.received(svc, view.length, nowMs);
    // A member that got all layers may not want the new ones.
    if (spatial.choices !== choices) group.dissolve();
    return svc;
  }

  /** Returns null unless the next packet in order goes only to the layer's fan-out group. */
  fastStreamTerms(layer: PublishedLayer): FastStreamTerms | null {
    const { codec, mediaCodec } = this;
    const { group, reception, ssrc, nack } = layer;
    // Native code does not count bytes per spatial layer.
    if (!codec || !reception || this.muted || this.choices !== this.layers) return null;
    for (const subscriber of this.#slowPath) if (!subscriber.forwardRun && !subscriber.ignores(layer)) return null;
    const { highest } = reception;
    if (group.size > 0 && group.highest !== highest) return null;
    if (nack.highest !== highest) return null;
    const rewritesVp8 = (group.table.slots[0]?.vp8Offsets ?? null) !== null;
    return { ssrc, payloadType: codec.payloadType, codec: mediaCodec, rewritesVp8, highest };
  }

  /** Does the same as `receive` for a run of packets that the fast path has sent to the layer's fan-out group. */
  receiveRun(layer: PublishedLayer, run: PacketRun, batch: ReceiveBatch, nowMs: number): void {
    layer.received(run.timestamp, run.bytes, nowMs);
    for (let i = 0; i < run.count; i++) batch.keep(run.first + i, layer.ring, run.extended + i, nowMs);
    if (layer.group.size > 0) layer.group.advanceBy(run, nowMs);
    for (const subscriber of this.#slowPath) subscriber.forwardRun?.(run, batch, layer, nowMs);
  }

  #beginsKeyframe({ view, extended, vp8 }: SourcePacket, { ring, reception }: PublishedLayer): boolean {
    return this.#keyframeStart.isAt(this.mediaCodec, view, extended, {
      ring,
      first: reception?.first ?? extended,
      vp8,
    });
  }

  #forward(packet: SourcePacket, layer: PublishedLayer, nowMs: number): void {
    const { group } = layer;
    const decision = group.decide(packet);
    if (decision === "forward") this.#udp.fanOutToGroup(packet, group, nowMs);
    else if (decision === "dissolve") group.dissolve();
    this.#forwardOnSlowPath(packet, layer, nowMs);
    this.#udp.schedule();
    if (packet.keyframe && this.kind === "video") {
      for (const subscription of this.subscriptions)
        if (subscription.catchUpFrom !== null) this.replay(subscription, layer, subscription.catchUpFrom, nowMs);
    }
  }

  #forwardOnSlowPath(packet: SourcePacket, layer: PublishedLayer, nowMs: number): void {
    const slowPath = this.#slowPath;
    const targets = this.#targets;
    const plain = this.#plainTargets;
    let count = 0;
    let plainCount = 0;
    let left = 0;
    for (const subscription of slowPath) {
      const target = subscription.forward(packet, layer, nowMs);
      if (!target || !subscription.join(packet, layer, nowMs)) slowPath[left++] = subscription;
      if (!target) continue;
      if (subscription.unwrapsRed) plain[plainCount++] = target;
      else targets[count++] = target;
    }
    slowPath.length = left;
    if (count > 0) this.#udp.fanOut(packet.view, targets, count);
    if (plainCount > 0 && primaryOfRed(packet.view, this.#primary)) this.#udp.fanOut(this.#primary, plain, plainCount);
  }

  add(subscription: Subscriber): void {
    this.subscriptions.push(subscription);
    // Another worker sends nothing until it is asked.
    if (!this.isHome) this.#onUrgentFeedback();
    this.addToSlowPath(subscription);
  }

  addToSlowPath(subscription: Subscriber): void {
    this.leaveFastPath();
    this.#slowPath.push(subscription);
  }

  /** Called when a subscriber outside of fan-out groups changes, so that each packet is offered to it again. */
  leaveFastPath(): void {
    this.#onLeaveFastPath();
  }

  remove(subscription: Subscriber): void {
    for (const list of [this.subscriptions, this.#slowPath]) {
      const at = list.indexOf(subscription);
      if (at >= 0) list.splice(at, 1);
    }
  }

  /**
   * Forwards packets from the ring to one subscriber: to a new one, from a recent keyframe on; or to one that got packets of a
   * keyframe before the keyframe's first packet.
   */
  replay(subscription: Subscriber, layer: PublishedLayer, from: number, nowMs: number): void {
    this.leaveFastPath();
    const packet: SourcePacket = { ...this.#packet, view: new RtpView(), vp8: new Vp8Descriptor(), layer: layer.index };
    for (let extended = from; extended <= (layer.reception?.highest ?? 0); extended++) {
      if (!layer.ring.read(extended, nowMs, packet.view)) continue;
      packet.extended = extended;
      packet.keyframe = this.#beginsKeyframe(packet, layer);
      packet.svc = this.#spatial?.read(packet.view, this.mediaCodec, this.extensions.dependencyDescriptor) ?? null;
      packet.temporal = this.#readTemporal(packet, layer);
      const target = subscription.forward(packet, layer, nowMs);
      if (target) this.#udp.fanOut(packet.view, [target], 1);
    }
    subscription.catchUpFrom = null;
    this.#udp.schedule();
  }

  /** The publisher sends with this codec from now on. */
  changeCodec(codec: NegotiatedCodec): void {
    this.codec = codec;
    const [only] = this.layers;
    const mayHaveLayers = this.mediaCodec === "vp9" || this.mediaCodec === "av1";
    this.#spatial = mayHaveLayers && only && !this.isSimulcast ? new SpatialLayers(only) : null;
    for (const subscription of [...this.subscriptions]) subscription.sourceChanged();
  }

  /** Subscribers that can decode only the backup switch to it, or back to the track. Nothing changes for the others. */
  backupChanged(): void {
    for (const subscription of [...this.subscriptions]) subscription.backupChanged?.();
  }

  /**
   * A layer continues as another stream. Its subscribers continue with the next keyframe, without a jump in sequence
   * numbers and timestamps.
   */
  restarted(layer: PublishedLayer): void {
    for (const subscription of this.subscriptions) subscription.restarted(layer.index);
    if (this.kind === "video" && this.subscriptions.length > 0) layer.requestKeyframe();
  }

  /** Passes the layer's sender report to the subscribers. */
  reported(layer: PublishedLayer): void {
    const report = layer.senderReport;
    if (!report) return;
    for (const subscription of this.subscriptions) subscription.reported(layer.index, report.reference);
  }

  clockMoved(byMs: number): void {
    for (const subscription of this.subscriptions) subscription.clockMoved?.(byMs);
    for (const layer of this.layers) {
      layer.clockMoved(byMs);
      this.reported(layer);
    }
  }

  /** Takes a subscriber's report on audio. */
  downlinkLost(fraction: number, nowMs: number): void {
    if (fraction >= this.downlinkLoss(nowMs)) this.#downlinkLoss = { fraction, atMs: nowMs };
  }

  downlinkLoss(nowMs: number): number {
    return nowMs - this.#downlinkLoss.atMs < LOSS_KEPT_MS ? this.#downlinkLoss.fraction : 0;
  }

  describe(): Track {
    return {
      id: this.trackId,
      kind: this.kind,
      source: this.source,
      name: this.name,
      muted: this.muted,
      simulcast: this.isSimulcast,
      // RED carries only Opus, so it is named so.
      codec: this.codec?.codec === "red" ? "opus" : (this.codec?.codec ?? null),
      ...(this.encryption && { encryption: this.encryption }),
    };
  }
}
