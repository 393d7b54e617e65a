/** One track on its way to one viewer: what the viewer wants of it, what it gets, and why. */
import type { Layer } from "../../protocol/room-records.ts";
import type { DeliveryReason, LayerChoice } from "../../protocol/signaling.ts";
import type { FanOutTarget, FanOutTransport } from "../forwarding/fan-out-target.ts";
import { type Forwarder, PAUSED } from "../forwarding/forwarder.ts";
import type { SeatHolder } from "../forwarding/sharing-forwarder.ts";
import type { SourcePacket } from "../forwarding/source-packet.ts";
import type { TransportSequence } from "../wire/rtcp/twcc-feedback.ts";
import type { ClockReference } from "../wire/rtp/timestamp-map.ts";
import type { OutgoingSection } from "./outgoing-section.ts";
import type { Publication, Subscriber } from "./publication.ts";
import { LAYER_NAMES, type PublishedLayer } from "./published-layer.ts";

export type SubscriptionSettings = { paused: boolean; maxHeight: number | null; layer: LayerChoice; priority: number };

export const DEFAULT_SUBSCRIPTION_SETTINGS: SubscriptionSettings = {
  paused: false,
  maxHeight: null,
  layer: "auto",
  priority: 0,
};

export type Delivery = { layer: Layer | null; paused: boolean; reason: DeliveryReason };

/** What a subscription tells its viewer's connection, and asks of it. */
type SubscriptionOwner = {
  changed(delivery: Delivery): void;
  /** Every keyframe costs the publisher and all who watch, so a viewer has a budget of them. */
  mayRequestKeyframe(): boolean;
};

export class Subscription implements Subscriber {
  readonly publication: Publication;
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
    wish: SubscriptionSettings,
    sequence: TransportSequence,
    viewer: SubscriptionOwner,
  ) {
    this.publication = publication;
    this.section = section;
    this.settings = wish;
    this.#sequence = sequence;
    this.#viewer = viewer;
    publication.add(this);
  }

  get bytesOut(): number {
    return this.#bytesOut + (this.section.forwarder?.seatedBytes ?? 0);
  }

  get unwrapsRed(): boolean {
    return this.section.unwrapsRed;
  }

  /** Less of it is sent than is wanted, because no more would get through. */
  get isHeldBack(): boolean {
    return this.#reason === "bandwidth";
  }

  /** The connection is up: packets may flow. */
  start(transport: FanOutTransport): void {
    this.#transport = transport;
    this.sourceChanged();
  }

  sourceChanged(): void {
    this.publication.leaveFastPath();
    if (!this.#transport || !this.publication.codec) return;
    if (!this.section.attach(this.publication, this.#transport)) this.#reason = "codec";
    this.#switches = this.section.forwarder?.switches ?? 0;
  }

  moveTo(section: OutgoingSection): void {
    this.section.detach();
    this.section = section;
    this.sourceChanged();
  }

  /** Which layer to deliver from now on; null pauses. When it takes a keyframe, the last one serves or one is asked for. */
  setLayer(layer: PublishedLayer | null, reason: DeliveryReason, nowMs: number): void {
    const forwarder = this.section.target ? this.section.forwarder : null;
    // Without a forwarder there is nothing to send yet, or nothing that this viewer could decode.
    this.#reason = forwarder ? reason : this.#transport && this.publication.codec ? "codec" : "source";
    // Nothing comes: when it does again it goes on where it was, and nobody needs a keyframe for that.
    this.#starved = layer === null && this.#reason === "source" && (forwarder?.currentLayer ?? PAUSED) !== PAUSED;
    if (forwarder && !this.#starved) {
      const index = layer?.index ?? PAUSED;
      if (forwarder.targetLayer !== index) {
        forwarder.setTarget(index);
        this.publication.leaveFastPath();
      }
      if (layer && forwarder.wantsKeyframe) this.#begin(layer, forwarder, nowMs);
    } else if (!this.#transport && this.publication.kind === "video") {
      // Made while the connection comes up, and replayed when it stands.
      this.#ask(layer);
    }
    this.#report();
  }

  /** What is larger ends now, although its successor has to wait for a keyframe: the path cannot take it any more. */
  stopAbove(layer: PublishedLayer): void {
    const forwarder = this.section.target ? this.section.forwarder : null;
    if (forwarder && forwarder.currentLayer > layer.index) forwarder.setTarget(PAUSED);
  }

  /** Neither does it get this layer, nor is a beginning of it on its way. */
  needsKeyframeFor({ index }: PublishedLayer): boolean {
    const forwarder = this.publication.kind === "video" && this.section.target ? this.section.forwarder : null;
    return forwarder !== null && forwarder.currentLayer !== index && forwarder.targetLayer !== index;
  }

  /** Only one who has seen nothing yet can begin in the past: time must not go back in a picture that was shown. */
  #begin(layer: PublishedLayer, forwarder: Forwarder, nowMs: number): void {
    const from = forwarder.hasSource ? null : layer.recentKeyframe(nowMs);
    if (from !== null) this.publication.replay(this, layer, from, nowMs);
    if (forwarder.wantsKeyframe) this.#ask(layer);
  }

  /** A voice that gets or loses its place is heard or silenced with its next packet, not at the next allocation. */
  refreshAudio(nowMs: number): void {
    const { audible, muted, layers } = this.publication;
    this.setLayer(audible && !muted && !this.settings.paused ? (layers[0] ?? null) : null, "requested", nowMs);
  }

  get currentLayer(): Layer | null {
    const index = this.section.target ? (this.section.forwarder?.currentLayer ?? PAUSED) : PAUSED;
    return index === PAUSED ? null : this.publication.layerName(index);
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
    // Every packet of sound is a beginning.
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
    const holder: SeatHolder = {
      numbers: section.usesTransportSequence ? this.#sequence : null,
      left: (bytes, lastOutgoing) => {
        this.#bytesOut += bytes;
        responder?.left(lastOutgoing);
        this.publication.addToSlowPath(this);
      },
    };
    if (!forwarder.join(layer.audience, packet, target, nowMs, holder)) return false;
    if (forwarder.seat) responder?.seated(forwarder.seat, layer.audience, layer.ring);
    return true;
  }

  /** The viewer cannot decode any more. */
  requestKeyframe(): void {
    const index = this.section.forwarder?.targetLayer ?? PAUSED;
    if (index !== PAUSED) this.#ask(this.publication.layerAt(index) ?? null);
  }

  /** Asking again for one that has not come yet costs nobody a picture. */
  #ask(layer: PublishedLayer | null): void {
    if (layer && (layer.keyframeDue || this.#viewer.mayRequestKeyframe())) layer.requestKeyframe();
  }

  end(): void {
    this.section.detach();
    this.publication.remove(this);
  }

  /** Viewers are told when what they get changes, once it has really changed. */
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

export function layerNumber(layer: Layer): number {
  return LAYER_NAMES.indexOf(layer);
}
