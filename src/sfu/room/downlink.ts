/** What one participant receives: its sections, its subscriptions, and the bandwidth of its path. */
import { MediaError, type Negotiate, type ParticipantSnapshot } from "../../protocol/media-node.ts";
import type { DeliveryReason, SubscribedSection, SubscriptionChange } from "../../protocol/signaling.ts";
import { Allocation } from "../tracks/allocation.ts";
import { type OutgoingSection, OutgoingSections, type RepairTerms } from "../tracks/outgoing-section.ts";
import type { Publication } from "../tracks/publication.ts";
import { DEFAULT_SUBSCRIPTION_SETTINGS, Subscription, type SubscriptionSettings } from "../tracks/subscription.ts";
import { TokenBucket } from "../transport/token-bucket.ts";
import type { ReportBlock, RtcpPacket } from "../wire/rtcp/rtcp.ts";
import { SentPackets } from "../wire/rtcp/twcc-feedback.ts";
import type { AnsweredSection, OutgoingStream } from "../wire/sdp/answer.ts";
import type { MediaOwner, ParticipantHost, RoomTracks } from "./host.ts";
import { ReportSender } from "./report-sender.ts";

const DEFAULT_RTT_MS = 100;
/** Long enough that a video of one frame a second counts as flowing. */
const FLOW_MS = 3_000;

export class Downlink {
  /** Bytes of ended subscriptions and of retransmissions. */
  #bytesOut = 0;
  #bytesAtLastLook = 0;
  #flowedAtMs = Number.NEGATIVE_INFINITY;
  /** Measured by the participant's reports; null before the first one. */
  rttMs: number | null = null;
  lossPercent: number | null = null;
  readonly #host: ParticipantHost;
  readonly #room: RoomTracks;
  readonly #owner: MediaOwner;
  readonly #sections = new OutgoingSections();
  /** By track. */
  readonly #subscriptions = new Map<string, Subscription>();
  readonly #reports: ReportSender;
  readonly #keyframeBudgets: KeyframeBudgets;
  #sent: SentPackets;
  #allocation: Allocation;
  #limitBps = Number.POSITIVE_INFINITY;
  #automatic = false;
  /** The sections of the loudest voices. */
  #voiceSections: OutgoingSection[] = [];
  /** Microphones that must not be delivered in the voice sections, because they may not be received or are not wanted. */
  readonly #withheld = new Set<string>();
  #voicesTold = "{}";

  constructor(host: ParticipantHost, room: RoomTracks, owner: MediaOwner) {
    this.#host = host;
    this.#room = room;
    this.#owner = owner;
    this.#sent = new SentPackets();
    this.#allocation = new Allocation(this.#sent, host);
    this.#keyframeBudgets = new KeyframeBudgets(host.now);
    this.#reports = new ReportSender((packet) => owner.receivingConnection?.sendRtcp(packet));
  }

  get outgoingStreams(): ReadonlyMap<string, OutgoingStream> {
    return this.#sections.streams;
  }

  get bytesOut(): number {
    let bytes = this.#bytesOut;
    for (const subscription of this.#subscriptions.values()) bytes += subscription.bytesOut;
    return bytes;
  }

  /** The recently sent packets, for the flight recorder. */
  get history(): number[][] {
    return this.#sent.history(this.#host.now());
  }

  get queueMs(): number | null {
    return this.#subscriptions.size > 0 ? this.#allocation.queueMs(this.#host.now()) : null;
  }

  /** The available bandwidth; null while nothing is received. */
  get availableBps(): number | null {
    return this.#subscriptions.size > 0 ? this.#allocation.estimate : null;
  }

  get isHeldBack(): boolean {
    for (const subscription of this.#subscriptions.values()) if (subscription.isHeldBack) return true;
    return false;
  }

  get usesLinks(): boolean {
    for (const { publication } of this.#subscriptions.values()) if (!publication.isHome) return true;
    return false;
  }

  negotiated(sections: readonly AnsweredSection[]): void {
    this.#sections.negotiated(sections, (section) => {
      const occupant = this.#occupant(section);
      if (occupant) this.#end(occupant);
    });
  }

  /** Takes all subscriptions that the client wants. A track that has ended meanwhile is no error, as its end was announced. */
  subscribe(wanted: readonly SubscribedSection[] | "auto", voices: Negotiate["voices"] = undefined): void {
    this.#voiceSections = (voices?.mids ?? []).map((mid) => this.#sections.at(mid));
    for (const trackId of voices?.except ?? []) this.#withheld.add(trackId);
    this.#automatic = wanted === "auto";
    if (wanted === "auto") {
      this.fillAutomatically();
      return;
    }
    const tracks = new Set(wanted.map((section) => section.trackId));
    for (const [trackId, subscription] of this.#subscriptions) {
      if (!tracks.has(trackId) && !this.#isSharedVoice(subscription)) this.#end(subscription);
    }
    for (const { mid, trackId, ...viewing } of wanted) {
      const publication = this.#room.publication(trackId);
      if (publication)
        this.#place(publication, this.#sections.at(mid), { ...DEFAULT_SUBSCRIPTION_SETTINGS, ...defined(viewing) });
    }
    if (this.sharesVoices) this.placeVoices(this.#room.voices());
    this.allocate(this.#host.now());
  }

  get sharesVoices(): boolean {
    return this.#voiceSections.length > 0;
  }

  #isSharedVoice({ section }: Subscription): boolean {
    return this.#voiceSections.includes(section);
  }

  /** Gives each voice a section, and leaves a section to its voice until another one needs it. */
  placeVoices(voices: readonly Publication[]): void {
    if (!this.#owner.permissions.subscribe) return;
    const heard = voices
      .filter(({ identity, trackId }) => {
        const subscription = this.#subscriptions.get(trackId);
        if (identity === this.#owner.self.identity || this.#withheld.has(trackId)) return false;
        return !subscription || this.#isSharedVoice(subscription);
      })
      .slice(0, this.#voiceSections.length);
    const free = this.#voiceSections.filter((section) => {
      const occupant = this.#occupant(section);
      return !occupant || !heard.includes(occupant.publication);
    });
    // Sections without a voice come first.
    free.sort((a, b) => Number(this.#occupant(a) !== undefined) - Number(this.#occupant(b) !== undefined));
    const waiting = heard.filter(({ trackId }) => !this.#subscriptions.has(trackId));
    const nowMs = this.#host.now();
    for (const publication of waiting) {
      const section = free.shift();
      if (!section) break;
      this.#place(publication, section, DEFAULT_SUBSCRIPTION_SETTINGS);
      this.#subscriptions.get(publication.trackId)?.refreshAudio(nowMs);
    }
    this.#voicesChanged();
  }

  #voicesChanged(): void {
    const voices = this.#voiceSections.flatMap((section) => {
      const occupant = this.#occupant(section);
      return occupant ? [[section.mid, occupant.publication.identity]] : [];
    });
    const text = JSON.stringify(Object.fromEntries(voices));
    if (text === this.#voicesTold) return;
    this.#voicesTold = text;
    this.#owner.emit({ type: "voicesChanged", voices: Object.fromEntries(voices) });
  }

  update(changes: readonly SubscriptionChange[]): void {
    if (!this.#owner.permissions.subscribe)
      throw new MediaError("PERMISSION_DENIED", "This token does not permit subscribing.");
    const unknown: string[] = [];
    for (const { trackId, mid, ...viewing } of changes) {
      const publication = this.#room.publication(trackId);
      const existing = this.#subscriptions.get(trackId);
      if (mid === null) {
        if (publication?.kind === "audio") this.#withheld.add(trackId);
        if (existing) this.#end(existing);
      } else if (publication?.identity === this.#owner.self.identity) {
        throw new MediaError("NEGOTIATION_FAILED", "A participant does not receive its own track.");
      } else if (!publication) unknown.push(trackId);
      else
        this.#place(publication, this.#sections.at(mid), {
          ...(existing?.settings ?? DEFAULT_SUBSCRIPTION_SETTINGS),
          ...defined(viewing),
        });
    }
    if (this.sharesVoices) this.placeVoices(this.#room.voices());
    this.allocate(this.#host.now());
    if (unknown.length > 0) throw new MediaError("TRACK_NOT_FOUND", `There is no track ${unknown[0]} in the room.`);
  }

  #place(publication: Publication, section: OutgoingSection, settings: SubscriptionSettings): void {
    if (publication.kind !== section.kind) {
      throw new MediaError(
        "NEGOTIATION_FAILED",
        `Section ${section.mid} carries ${section.kind}, the track is ${publication.kind}.`,
      );
    }
    if (publication.identity === this.#owner.self.identity) return;
    const existing = this.#subscriptions.get(publication.trackId);
    const occupant = this.#occupant(section);
    if (occupant && occupant !== existing) this.#end(occupant);
    if (existing) {
      existing.settings = settings;
      if (existing.section !== section) existing.moveTo(section);
      return;
    }
    const { trackId } = publication;
    const subscription = new Subscription(publication, section, settings, this.#sent, {
      changed: (delivery) => this.#owner.emit({ type: "subscriptionChanged", trackId, ...delivery }),
      mayRequestKeyframe: () => this.#keyframeBudgets.mayAsk(trackId),
      awaitedSource: () => this.allocate(this.#host.now()),
    });
    this.#subscriptions.set(trackId, subscription);
    const transport = this.#owner.receivingConnection?.transport;
    if (transport) subscription.start(transport);
  }

  #occupant(section: OutgoingSection): Subscription | undefined {
    for (const subscription of this.#subscriptions.values()) if (subscription.section === section) return subscription;
    return undefined;
  }

  #end(subscription: Subscription): void {
    subscription.end();
    this.#bytesOut += subscription.bytesOut;
    this.#subscriptions.delete(subscription.publication.trackId);
    this.#allocation.forget(subscription.publication.trackId);
  }

  /** For WHEP, free sections get the room's tracks in the order in which they were published. */
  fillAutomatically(): void {
    if (!this.#automatic || !this.#owner.permissions.subscribe) return;
    const used = new Set([...this.#subscriptions.values()].map(({ section }) => section));
    const free = this.#sections.usable.filter((section) => !used.has(section));
    const next = {
      audio: free.filter(({ kind }) => kind === "audio"),
      video: free.filter(({ kind }) => kind === "video"),
    };
    for (const publication of this.#room.publications()) {
      if (this.#subscriptions.has(publication.trackId) || publication.identity === this.#owner.self.identity) continue;
      const section = next[publication.kind].shift();
      if (section) this.#place(publication, section, DEFAULT_SUBSCRIPTION_SETTINGS);
    }
    this.allocate(this.#host.now());
  }

  trackEnded(publication: Publication): void {
    const subscription = this.#subscriptions.get(publication.trackId);
    if (subscription) this.#end(subscription);
    this.#withheld.delete(publication.trackId);
    // The section may be free for a voice that had none.
    if (subscription && this.#isSharedVoice(subscription)) this.placeVoices(this.#room.voices());
    this.#keyframeBudgets.forget(publication.trackId);
  }

  /** With the reason `permission`, the client is notified of the end of each subscription. */
  unsubscribeAll(reason: DeliveryReason): void {
    for (const subscription of [...this.#subscriptions.values()]) {
      this.#end(subscription);
      const { trackId } = subscription.publication;
      if (reason === "permission")
        this.#owner.emit({ type: "subscriptionChanged", trackId, layer: null, paused: true, reason });
    }
  }

  /** Requests keyframes once DTLS is up; an earlier one could not be sent in time. */
  connected(): void {
    const transport = this.#owner.receivingConnection?.transport;
    if (!transport) return;
    for (const subscription of this.#subscriptions.values()) subscription.start(transport);
    this.allocate(this.#host.now());
  }

  reset(): void {
    this.unsubscribeAll("requested");
    this.#voiceSections = [];
    this.#voicesTold = "{}";
    this.#sections.clear();
    this.#allocation.close();
    this.#sent = new SentPackets();
    this.#allocation = new Allocation(this.#sent, this.#host);
    this.#allocation.limitBps = this.#limitBps;
    this.rttMs = null;
    this.lossPercent = null;
  }

  receiveRtcp(packets: readonly RtcpPacket[], nowMs: number): void {
    for (const packet of packets) {
      switch (packet.type) {
        case "nack":
          this.#host.udp.repairs.nacksIn += packet.lost.length;
          this.#bytesOut +=
            this.#sections
              .bySsrc(packet.mediaSsrc)
              ?.repair(packet.lost, this.#sent, this.#repairTerms(nowMs), this.#host.udp, nowMs) ?? 0;
          break;
        case "pli":
          this.#keyframe(packet.mediaSsrc);
          break;
        case "fir":
          for (const { ssrc } of packet.requests) this.#keyframe(ssrc);
          break;
        case "rr":
        case "sr":
          this.#reported(packet.reports, nowMs);
          break;
        case "remb":
          this.#allocation.onRemb(packet.bitrate, nowMs);
          break;
        case "transport-feedback":
          this.#allocation.onTransportFeedback(packet, nowMs);
          // A path that has become narrow would fill its queue until the next tick. The report may carry a time slightly before
          // now.
          if (this.#allocation.isReallocationDue(nowMs)) this.allocate(this.#host.now());
          break;
      }
    }
  }

  #repairTerms(nowMs: number): RepairTerms {
    return {
      rttMs: this.rttMs ?? DEFAULT_RTT_MS,
      take: (bytes) => this.#allocation.takeRepair(bytes, nowMs),
    };
  }

  #reported(reports: readonly ReportBlock[], nowMs: number): void {
    const ours = reports.filter((report) => this.#sections.bySsrc(report.ssrc) !== undefined);
    if (ours.length === 0) return;
    const lossRatio = Math.max(...ours.map((report) => report.fractionLost)) / 256;
    this.#allocation.onLoss(lossRatio, nowMs);
    this.lossPercent = this.#allocation.ownLoss(lossRatio, nowMs) * 100;
    for (const report of ours) {
      const section = this.#sections.bySsrc(report.ssrc);
      this.rttMs = section?.sentReports.roundTripMs(report, nowMs) ?? this.rttMs;
      if (section?.kind === "audio" && !section.sendsRed)
        this.#occupant(section)?.publication.downlinkLost(report.fractionLost, nowMs);
    }
  }

  #keyframe(ssrc: number): void {
    this.#host.udp.repairs.keyframesIn += 1;
    const section = this.#sections.bySsrc(ssrc);
    if (section) this.#occupant(section)?.requestKeyframe();
  }

  /** The kind of media that was sent recently, on which the client has to report. */
  takeFlow(nowMs: number): "nothing" | "audio" | "video" {
    const { bytesOut } = this;
    if (bytesOut > this.#bytesAtLastLook) this.#flowedAtMs = nowMs;
    this.#bytesAtLastLook = bytesOut;
    if (nowMs - this.#flowedAtMs > FLOW_MS) return "nothing";
    for (const { publication, currentLayer } of this.#subscriptions.values())
      if (publication.kind === "video" && currentLayer !== null) return "video";
    return "audio";
  }

  limit(bitsPerSecond: number | null): void {
    this.#limitBps = this.#allocation.limitBps = bitsPerSecond ?? Number.POSITIVE_INFINITY;
    this.allocate(this.#host.now());
  }

  tick(nowMs: number): void {
    if (this.#subscriptions.size === 0 || !this.#owner.receivingConnection?.isReady) return;
    this.#reports.tick(this.#subscriptions.values(), nowMs);
    if (this.#allocation.isDue(this.#subscriptions, nowMs)) this.allocate(nowMs);
  }

  allocate(nowMs: number): void {
    this.#allocation.run(this.#subscriptions, nowMs);
  }

  describe(): ParticipantSnapshot["subscriptions"] {
    return [...this.#subscriptions.values()].map((subscription) => ({
      trackId: subscription.publication.trackId,
      mid: subscription.section.mid,
      layer: subscription.currentLayer,
      paused: subscription.currentLayer === null,
    }));
  }
}

function defined<T extends object>(values: T): Partial<T> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Partial<T>;
}

/** The limit for each track, whether keyframes are needed because of loss, a change of section or layer, or a new subscription. */
const KEYFRAMES_PER_SECOND = 0.25;
/** Enough for a window that is resized on a poor path. */
const KEYFRAMES_AT_ONCE = 16;

/** Limits how often one participant may request keyframes, which cost the publisher and all subscribers. */
export class KeyframeBudgets {
  readonly #now: () => number;
  /** Only for tracks whose keyframes were requested, until they end. */
  readonly #byTrack = new Map<string, TokenBucket>();

  constructor(now: () => number) {
    this.#now = now;
  }

  mayAsk(trackId: string): boolean {
    let budget = this.#byTrack.get(trackId);
    if (!budget) {
      budget = new TokenBucket(KEYFRAMES_PER_SECOND, KEYFRAMES_AT_ONCE, this.#now);
      this.#byTrack.set(trackId, budget);
    }
    return budget.take(1);
  }

  forget(trackId: string): void {
    this.#byTrack.delete(trackId);
  }
}
