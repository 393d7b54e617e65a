/** The forwarding of one track to one participant: its settings, the layer it gets, and why. */
import type { Layer } from "../../protocol/room-records.ts";
import type { DeliveryReason, LayerChoice } from "../../protocol/signaling.ts";
import type { SlotHolder } from "../fast-path/group-forwarder.ts";
import type { FanOutTarget, FanOutTransport } from "../forwarding/fan-out-target.ts";
import { ALL_SPATIAL, ALL_TEMPORAL, type Forwarder, PAUSED } from "../forwarding/forwarder.ts";
import type { SourcePacket } from "../forwarding/source-packet.ts";
import type { TransportSequence } from "../wire/rtcp/twcc-feedback.ts";
import type { ClockReference } from "../wire/rtp/timestamp-map.ts";
import { matchCodec } from "../wire/sdp/codecs.ts";
import type { OutgoingSection } from "./outgoing-section.ts";
import type { Publication, Subscriber } from "./publication.ts";
import type { PublishedLayer } from "./published-layer.ts";
import type { SelectableLayer } from "./spatial-layers.ts";

export type SubscriptionSettings = {
  paused: boolean;
  maxHeight: number | null;
  layer: LayerChoice;
  priority: number;
  /** The subscriber gets only as many temporal layers as this many frames a second need, if the stream has any. */
  maxFps: number | null;
};

export const DEFAULT_SUBSCRIPTION_SETTINGS: SubscriptionSettings = {
  paused: false,
  maxHeight: null,
  layer: "auto",
  priority: 0,
  maxFps: null,
};

type Delivery = { layer: Layer | null; paused: boolean; reason: DeliveryReason };

/** The subscriber's connection, as its subscriptions use it. */
type SubscriptionOwner = {
  changed(delivery: Delivery): void;
  /** Keyframes cost the publisher and all subscribers, so each subscriber has a budget. */
  mayRequestKeyframe(): boolean;
  /** Called when the track is sent for the first time or again, and this subscriber gets none of its layers yet. */
  awaitedSource(): void;
};

export class Subscription implements Subscriber {
  /** The track, or its backup in another codec. */
  publication: Publication;
  section: OutgoingSection;
  settings: SubscriptionSettings;
  #bytesOut = 0;
  desiredLayer: number | null = null;
  catchUpFrom: number | null = null;
  readonly #sequence: TransportSequence;
  readonly #viewer: SubscriptionOwner;
  #transport: FanOutTransport | null = null;
  #reason: DeliveryReason = "requested";
  #reported: Delivery | null = null;
  #switches = 0;
  #starved = false;

  constructor(
    publication: Publication,
    section: OutgoingSection,
    settings: SubscriptionSettings,
    sequence: TransportSequence,
    viewer: SubscriptionOwner,
  ) {
    this.publication = publication;
    this.section = section;
    this.settings = settings;
    this.#sequence = sequence;
    this.#viewer = viewer;
    publication.add(this);
  }

  get bytesOut(): number {
    return this.#bytesOut + (this.section.forwarder?.groupBytes ?? 0);
  }

  get unwrapsRed(): boolean {
    return this.section.unwrapsRed;
  }

  /** A lower layer than desired is sent for lack of bandwidth. */
  get isHeldBack(): boolean {
    return this.#reason === "bandwidth";
  }

  /** Starts forwarding once the connection is up. */
  start(transport: FanOutTransport): void {
    this.#transport = transport;
    this.sourceChanged();
  }

  /** The codecs of the subscriber, if it can decode neither the track nor a backup of it. */
  get readableInstead(): readonly string[] | null {
    return this.#reason === "codec" ? this.section.codecs.map(({ codec }) => codec) : null;
  }

  sourceChanged(): void {
    this.choosePublication();
    this.publication.leaveFastPath();
    if (!this.#transport || !this.publication.codec) return;
    if (!this.section.attach(this.publication, this.#transport)) this.#reason = "codec";
    this.#switches = this.section.forwarder?.switches ?? 0;
  }

  backupChanged(): void {
    const before = this.publication;
    this.choosePublication();
    if (this.publication !== before) this.sourceChanged();
  }

  /** Takes the backup of the track if that is all that the subscriber can decode. */
  protected choosePublication(): void {
    const primary = this.publication.primary ?? this.publication;
    const { backup } = primary;
    const decodes = ({ codec }: Publication) => codec !== null && matchCodec(codec, this.section.codecs) !== null;
    const chosen = backup && !decodes(primary) && decodes(backup) ? backup : primary;
    if (chosen === this.publication) return;
    this.section.detach();
    this.publication.remove(this);
    this.publication = chosen;
    chosen.add(this);
  }

  moveTo(section: OutgoingSection): void {
    this.section.detach();
    this.section = section;
    this.sourceChanged();
  }

  get readsTemporal(): boolean {
    return this.section.forwarder?.readsTemporal ?? false;
  }

  /** Sets the layer to forward and the highest temporal layer of it; null pauses. If a keyframe is needed, a recent one is replayed or one is requested. */
  setLayer(
    layer: SelectableLayer | null,
    reason: DeliveryReason,
    nowMs: number,
    { temporal = ALL_TEMPORAL }: { temporal?: number } = {},
  ): void {
    const forwarder = this.section.target ? this.section.forwarder : null;
    // Without a forwarder nothing can be sent yet, or the subscriber cannot decode the track.
    this.#reason = forwarder ? reason : this.#transport && this.publication.codec ? "codec" : "source";
    // A source that stops sending continues later without a keyframe.
    this.#starved = layer === null && this.#reason === "source" && (forwarder?.currentLayer ?? PAUSED) !== PAUSED;
    if (forwarder && !this.#starved) {
      const index = layer?.stream.index ?? PAUSED;
      const spatial = layer?.spatial ?? ALL_SPATIAL;
      const { targetLayer, targetSpatial, targetTemporal } = forwarder;
      if (targetLayer !== index || targetSpatial !== spatial || targetTemporal !== temporal) {
        forwarder.setTarget(index, spatial, temporal);
        this.publication.leaveFastPath();
      }
      if (layer && forwarder.wantsKeyframe) this.#begin(layer.stream, forwarder, nowMs);
    } else if (!this.#transport && this.publication.kind === "video") {
      // The keyframe is encoded while the connection comes up, and is replayed afterwards.
      this.#ask(layer?.stream ?? null);
    }
    this.#report();
  }

  /** Stops a higher layer now, because the path cannot carry it, although the lower one still waits for a keyframe. */
  stopAbove({ stream }: SelectableLayer): void {
    const forwarder = this.section.target ? this.section.forwarder : null;
    if (forwarder && forwarder.currentLayer > stream.index) forwarder.setTarget(PAUSED);
  }

  /** Is true when the layer is neither forwarded nor about to be. */
  needsKeyframeFor({ stream: { index }, spatial }: SelectableLayer): boolean {
    const forwarder = this.publication.kind === "video" && this.section.target ? this.section.forwarder : null;
    if (forwarder?.currentLayer === index) return spatial > Math.max(forwarder.currentSpatial, forwarder.targetSpatial);
    return forwarder !== null && forwarder.currentLayer !== index && forwarder.targetLayer !== index;
  }

  /** Only a subscriber without any frame can start in the past, because time must not go back. */
  #begin(layer: PublishedLayer, forwarder: Forwarder, nowMs: number): void {
    const from = forwarder.hasSource ? null : layer.recentKeyframe(nowMs);
    if (from !== null) this.publication.replay(this, layer, from, nowMs);
    if (forwarder.wantsKeyframe) this.#ask(layer);
  }

  /** A recent keyframe would be replayed together with this one, so that is left to the next allocation. */
  sourceFlows(layer: PublishedLayer, nowMs: number): void {
    const target = this.section.forwarder?.targetLayer ?? PAUSED;
    if (this.#reason !== "source" || target !== PAUSED || !this.section.target) return;
    if (layer.recentKeyframe(nowMs) === null) this.#viewer.awaitedSource();
  }

  /** Applies audibility with the next packet instead of at the next allocation. */
  refreshAudio(nowMs: number): void {
    const { audible, muted, layers } = this.publication;
    this.setLayer(audible && !muted && !this.settings.paused ? (layers[0] ?? null) : null, "requested", nowMs);
  }

  get currentLayer(): Layer | null {
    const { forwarder } = this.section;
    const index = this.section.target ? (forwarder?.currentLayer ?? PAUSED) : PAUSED;
    if (index === PAUSED || !forwarder) return null;
    const { choices, layers } = this.publication;
    const isLayered = choices !== layers;
    return this.publication.layerName(isLayered ? Math.min(forwarder.currentSpatial, choices.length - 1) : index);
  }

  restarted(layer: number): void {
    this.section.forwarder?.layerRestarted(layer);
  }

  reported(layer: number, reference: ClockReference): void {
    this.section.forwarder?.setSenderReport(layer, reference);
  }

  ignores({ index }: PublishedLayer): boolean {
    const { target, forwarder } = this.section;
    if (!target || !forwarder) return true;
    // Audio can start with every packet.
    return this.publication.kind === "audio" ? forwarder.targetLayer !== index : forwarder.currentLayer !== index;
  }

  forward(packet: SourcePacket, layer: PublishedLayer, nowMs: number): FanOutTarget | null {
    const { section } = this;
    const { target, forwarder } = section;
    if (!target || !forwarder?.forward(packet, target, nowMs)) return null;
    const bytes = packet.view.length;
    if (section.usesTransportSequence) target.transportSequence = this.#sequence.next(bytes, nowMs);
    section.responder?.record(target, layer.ring, packet.extended);
    this.#bytesOut += bytes;
    if (forwarder.switches !== this.#switches) {
      this.#switches = forwarder.switches;
      section.senderReportDueMs = nowMs;
      if ((layer.reception?.highest ?? 0) > packet.extended) this.catchUpFrom = packet.extended + 1;
      this.#report();
    }
    return target;
  }

  join(packet: SourcePacket, layer: PublishedLayer, nowMs: number): boolean {
    const { section } = this;
    const { target, forwarder, responder } = section;
    if (!target || !forwarder || !section.canJoinFanOutGroup || this.catchUpFrom !== null) return false;
    const holder: SlotHolder = {
      numbers: section.usesTransportSequence ? this.#sequence : null,
      left: (bytes, lastOutgoing) => {
        this.#bytesOut += bytes;
        responder?.leftGroup(lastOutgoing);
        this.publication.addToSlowPath(this);
      },
    };
    if (!forwarder.join(layer.group, packet, target, nowMs, holder)) return false;
    if (forwarder.slot) responder?.joinedGroup(forwarder.slot, layer.group, layer.ring);
    return true;
  }

  /** Called when the subscriber cannot decode. */
  requestKeyframe(): void {
    const index = this.section.forwarder?.targetLayer ?? PAUSED;
    if (index !== PAUSED) this.#ask(this.publication.layerAt(index) ?? null);
  }

  /** Repeating a request costs nothing while the keyframe has not arrived. */
  #ask(layer: PublishedLayer | null): void {
    if (layer && (layer.keyframeDue || this.#viewer.mayRequestKeyframe())) layer.requestKeyframe();
  }

  end(): void {
    this.section.detach();
    this.publication.remove(this);
  }

  /** Notifies the subscriber once the forwarded layer has changed. */
  #report(): void {
    if (this.publication.kind !== "video" || !this.#transport) return;
    const target = this.section.target ? (this.section.forwarder?.targetLayer ?? PAUSED) : PAUSED;
    const layer = this.currentLayer;
    if (target !== PAUSED && layer === null) return;
    const paused = target === PAUSED || this.#starved;
    const delivery: Delivery = {
      layer: paused ? null : layer,
      paused,
      reason: this.#reason,
    };
    const before = this.#reported;
    if (before?.layer === delivery.layer && before.paused === delivery.paused) return;
    this.#reported = delivery;
    this.#viewer.changed(delivery);
  }
}
