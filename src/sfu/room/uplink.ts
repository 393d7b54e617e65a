/** What one participant sends: its packets, sorted to its publications, and the feedback to it. */
import { MediaError, type NamedSection } from "../../protocol/media-node.ts";
import type { PacketRun, ReceiveBatch } from "../fast-path/receive-batch.ts";
import { type PublisherStreams, StreamTable } from "../fast-path/stream-table.ts";
import type { SlotTable } from "../fast-path/subscriber-slot.ts";
import type { FlightRecorder } from "../flight/flight-recorder.ts";
import { receivedReport } from "../forwarding/sender-report.ts";
import { Demux, type StreamName } from "../tracks/demux.ts";
import { Publication } from "../tracks/publication.ts";
import type { PublishedLayer } from "../tracks/published-layer.ts";
import { PublisherClock } from "../tracks/publisher-clock.ts";
import { PublisherFeedback } from "../tracks/publisher-feedback.ts";
import { parseRtcp, type RtcpPacket } from "../wire/rtcp/rtcp.ts";
import { RtpView } from "../wire/rtp/rtp.ts";
import { RtpExtensions } from "../wire/rtp/rtp-extensions.ts";
import { unwrapRtx } from "../wire/rtp/rtx.ts";
import type { AnsweredSection } from "../wire/sdp/answer.ts";
import type { NegotiatedCodec } from "../wire/sdp/codecs.ts";
import { type NegotiatedExtensions, noExtensions } from "../wire/sdp/extensions.ts";
import type { Offer } from "../wire/sdp/offer.ts";
import type { MediaOwner, ParticipantHost, RoomTracks, TrackOwner } from "./host.ts";

type FastStream = { readonly publication: Publication; readonly layer: PublishedLayer };

/** A section on which the client sends. */
type IncomingSection = {
  rids: readonly string[];
  extensions: NegotiatedExtensions;
  /** Codecs by payload type, and repeated codecs by RTX payload type. */
  codecs: ReadonlyMap<number, NegotiatedCodec>;
  repairs: ReadonlyMap<number, NegotiatedCodec>;
};

const BUSY_MS = 1_000;

export class Uplink {
  readonly #table = new StreamTable<FastStream>();
  readonly #fastStreams = new Map<PublishedLayer, FastStream>();
  /** The streams whose packets native code may forward by itself. */
  readonly fastStreams: PublisherStreams = {
    table: this.#table,
    link: () => this.#table.link(this.#slotsOf),
    receiveRun: (run, batch, nowMs) => this.#receiveRun(run, batch, nowMs),
  };
  readonly feedback: PublisherFeedback;
  readonly #host: ParticipantHost;
  readonly #room: RoomTracks;
  readonly #owner: MediaOwner & TrackOwner;
  readonly #view = new RtpView();
  readonly #extensions = new RtpExtensions();
  #demux = new Demux();
  #sections = new Map<string, IncomingSection>();
  readonly #byMid = new Map<string, Publication>();
  #ids: NegotiatedExtensions = noExtensions();
  readonly #clock = new PublisherClock((byMs) => this.#clockMoved(byMs));
  readonly #flight: FlightRecorder;

  constructor(host: ParticipantHost, room: RoomTracks, owner: MediaOwner & TrackOwner, flight: FlightRecorder) {
    this.#flight = flight;
    this.#host = host;
    this.#room = room;
    this.#owner = owner;
    this.feedback = new PublisherFeedback((packet) => owner.connection?.sendRtcp(packet), host.udp.repairs);
  }

  publications(): Publication[] {
    return [...this.#byMid.values()];
  }

  /** Returns the ids of the requested tracks; known tracks keep theirs. */
  negotiated(
    offer: Offer,
    sections: readonly AnsweredSection[],
    publish: readonly NamedSection[],
  ): { clientTrackId: string; trackId: string }[] {
    const offered = new Map(offer.sections.map((section) => [section.mid, section]));
    this.#sections = new Map();
    this.#ids = noExtensions();
    for (const section of sections) {
      if (!section.receives) continue;
      for (const [name, id] of Object.entries(section.extensions)) this.#ids[name as keyof NegotiatedExtensions] ||= id;
      this.#sections.set(section.mid, {
        rids: offered.get(section.mid)?.sendRids ?? [],
        extensions: section.extensions,
        codecs: new Map(section.codecs.map((codec) => [codec.payloadType, codec])),
        repairs: new Map(
          section.codecs.flatMap((codec) => (codec.rtxPayloadType === null ? [] : [[codec.rtxPayloadType, codec]])),
        ),
      });
    }
    this.#table.setExtensions(this.#ids);
    this.#demux.negotiated(
      [...this.#sections].map(([mid, section]) => ({
        mid,
        payloadTypes: new Set(section.codecs.keys()),
        repairPayloadTypes: new Set(section.repairs.keys()),
        ssrcs: offered.get(mid)?.ssrcs ?? new Map(),
        rids: section.rids,
      })),
    );
    return this.#reconcile(publish);
  }

  #reconcile(publish: readonly NamedSection[]): { clientTrackId: string; trackId: string }[] {
    const wanted = new Map(publish.map((section) => [section.mid, section]));
    for (const [mid, publication] of this.#byMid) {
      if (wanted.get(mid)?.clientTrackId !== publication.clientTrackId) this.#end(publication);
    }
    return publish.map((section) => {
      const publication = this.#byMid.get(section.mid) ?? this.#begin(section);
      return { clientTrackId: publication.clientTrackId, trackId: publication.trackId };
    });
  }

  #begin(section: NamedSection): Publication {
    const incoming = this.#sections.get(section.mid);
    const publication = new Publication({
      ...section,
      trackId: section.trackId ?? `trk_${this.#host.newId()}`,
      identity: this.#owner.self.identity,
      rids: incoming?.rids ?? [],
      extensions: incoming?.extensions ?? noExtensions(),
      udp: this.#host.udp,
      onUrgentFeedback: () => this.#host.expediteFeedback(),
      onLeaveFastPath: (left) => this.#leaveFastPath(left),
    });
    this.#byMid.set(section.mid, publication);
    this.#room.published(publication, this.#owner);
    return publication;
  }

  #end(publication: Publication): void {
    this.#leaveFastPath(publication);
    for (const layer of publication.layers) this.#fastStreams.delete(layer);
    this.#byMid.delete(publication.mid);
    this.#room.unpublished(publication);
    if (publication.announced) this.#owner.emit({ type: "trackUnpublished", trackId: publication.trackId });
  }

  #find(trackId: string): Publication {
    const publication = this.publications().find((candidate) => candidate.trackId === trackId);
    if (!publication) throw new MediaError("TRACK_NOT_FOUND", "The participant publishes no such track.");
    return publication;
  }

  unpublish(trackId: string): void {
    this.#end(this.#find(trackId));
  }

  unpublishAll(): void {
    for (const publication of this.publications()) this.#end(publication);
  }

  setMuted(trackId: string, muted: boolean): void {
    const publication = this.#find(trackId);
    if (publication.muted === muted) return;
    publication.muted = muted;
    this.#leaveFastPath(publication);
    for (const layer of publication.layers) layer.muted();
    this.#room.muteChanged(publication);
    if (!publication.announced) return;
    this.#owner.emit(muted ? { type: "trackMuted", trackId } : { type: "trackUnmuted", trackId });
  }

  /** The connection has ended with all its streams. */
  reset(): void {
    this.unpublishAll();
    this.#demux = new Demux();
    this.#sections.clear();
    this.#clock.reset();
    this.feedback.reset();
  }

  receiveRtp(data: Uint8Array, length: number, nowMs: number): void {
    const view = this.#view;
    if (!view.parse(data, length)) return;
    this.#extensions.read(view, this.#ids);
    if (this.#extensions.transportSequence >= 0)
      this.feedback.arrived(this.#extensions.transportSequence, view.ssrc, nowMs);
    const name = this.#demux.find(view.ssrc) ?? this.#demux.identify(view, this.#extensions);
    if (!name) return;
    const publication = this.#byMid.get(name.mid);
    const section = this.#sections.get(name.mid);
    const layer = publication?.layerOf(name.rid);
    if (publication && section && layer) this.#receive(publication, layer, section, name, nowMs);
  }

  #receive(
    publication: Publication,
    layer: PublishedLayer,
    section: IncomingSection,
    name: StreamName,
    nowMs: number,
  ): void {
    const view = this.#view;
    const codec = name.repair ? section.repairs.get(view.payloadType) : section.codecs.get(view.payloadType);
    if (!codec || layer.isStraggler(view.ssrc, nowMs)) return;
    if (name.repair) {
      layer.repairSsrc = view.ssrc;
      if (layer.ssrc === 0 || !unwrapRtx(view, layer.ssrc, codec.payloadType)) return;
      // Browsers probe the bandwidth by repeating packets that have arrived, which is no media.
      if (!layer.nack.receive(view.sequenceNumber, nowMs)) return;
    } else if (layer.ssrc !== view.ssrc) {
      const isFirst = layer.ssrc === 0;
      layer.restart(view.ssrc, codec.clockRate, nowMs);
      if (!isFirst) publication.restarted(layer);
    }
    const { reception } = layer;
    if (!reception) return;
    this.#closeFastStream(layer);
    this.#flight.received(view, name.repair, nowMs);
    const extended = reception.receive(view.sequenceNumber, view.timestamp, view.length, nowMs, name.repair);
    if (!name.repair) layer.nack.receive(view.sequenceNumber, nowMs);
    if (publication.kind === "audio" && this.#extensions.audioLevel >= 0)
      this.#room.observeAudioLevel(publication, this.#extensions.audioLevel, nowMs);
    if (layer.needsFeedbackNow) this.#host.expediteFeedback();
    publication.receive(layer, view, extended, codec, nowMs);
    if (!publication.announced) {
      publication.announced = true;
      this.#owner.emit({ type: "trackPublished", track: publication.describe() });
    }
    this.#openFastStream(publication, layer);
  }

  /** After a packet that was handled here, native code may forward the next ones. */
  #openFastStream(publication: Publication, layer: PublishedLayer): void {
    const terms = publication.fastStreamTerms(layer);
    if (!terms) return;
    let stream = this.#fastStreams.get(layer);
    if (!stream) {
      stream = { publication, layer };
      this.#fastStreams.set(layer, stream);
    }
    const { arrivalsMemory: arrived } = this.feedback;
    this.#table.open(stream, terms, { arrived, flight: this.#flight.receivedMemory });
  }

  #closeFastStream(layer: PublishedLayer): void {
    const stream = this.#fastStreams.get(layer);
    if (stream) this.#table.close(stream);
  }

  #leaveFastPath(publication: Publication): void {
    for (const layer of publication.layers) this.#closeFastStream(layer);
  }

  readonly #slotsOf = ({ publication, layer }: FastStream): SlotTable | null => {
    if (publication.kind === "audio" && !this.#room.isVoiceUncontested(publication)) return null;
    return layer.group.table;
  };

  /** Does the same as `receiveRtp` for packets that native code has received, recorded and sent. */
  #receiveRun(run: PacketRun, batch: ReceiveBatch, nowMs: number): void {
    const stream = this.#table.owner(run.stream);
    if (!stream) return;
    const { publication, layer } = stream;
    if (run.hasTransportNumber) this.feedback.recordedNatively(layer.ssrc);
    layer.reception?.receiveNext(run.count, run.timestamp, run.bytes, nowMs);
    layer.nack.receiveNext(run.count);
    if (publication.kind === "audio" && run.audioLevel >= 0)
      this.#room.observeAudioLevel(publication, run.audioLevel, nowMs);
    publication.receiveRun(layer, run, batch, nowMs);
  }

  /** Processes sender reports, and returns the parsed compound packet for the downlink. */
  receiveRtcp(data: Buffer, length: number, nowMs: number): RtcpPacket[] {
    const packets = parseRtcp(data, length);
    for (const packet of packets) {
      if (packet.type !== "sr") continue;
      const layer = this.#layerOf(packet.ssrc);
      if (!layer) continue;
      layer.layer.reception?.senderReport(packet.ntpSeconds, packet.ntpFraction, nowMs);
      const { clockRate } = layer.publication.codec ?? { clockRate: 0 };
      const report = receivedReport(packet, nowMs);
      const { rttMs } = this.#owner;
      const reference =
        clockRate > 0 && this.#clock.place(layer.layer.clock, report.reference, clockRate, nowMs, rttMs);
      if (!reference) continue;
      layer.layer.senderReport = { ...report, reference };
      layer.publication.reported(layer.layer);
    }
    return packets;
  }

  /** Moves all streams together, so that those with rare reports stay synchronous. */
  #clockMoved(byMs: number): void {
    for (const publication of this.#byMid.values()) publication.clockMoved(byMs);
  }

  #layerOf(ssrc: number): { publication: Publication; layer: PublishedLayer } | null {
    for (const publication of this.#byMid.values()) {
      for (const layer of publication.layers) if (layer.ssrc === ssrc) return { publication, layer };
    }
    return null;
  }

  /** Is true while packets arrive and the publisher adapts its rate by the feedback. */
  isBusy(nowMs: number): boolean {
    const comes = nowMs - (this.#owner.connection?.liveness.mediaAtMs ?? 0) < BUSY_MS;
    return comes && !this.feedback.isSettled(nowMs);
  }

  /** A packet or keyframe has to be requested. */
  get isUrgent(): boolean {
    if (!this.#owner.connection?.isReady) return false;
    for (const publication of this.#byMid.values())
      for (const layer of publication.layers) if (layer.needsFeedbackNow) return true;
    return false;
  }

  /** Is true when packets of an announced, unmuted and wanted track are due. */
  get isExpected(): boolean {
    for (const publication of this.#byMid.values())
      if (publication.announced && !publication.muted && this.#room.isWanted(publication)) return true;
    return false;
  }

  tick(nowMs: number): void {
    if (this.#byMid.size === 0 || !this.#owner.connection?.isReady) return;
    this.feedback.tick(this.#byMid.values(), this.#owner.rttMs, nowMs);
  }
}
