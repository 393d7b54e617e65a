/** What one participant sends: its packets, sorted to its publications, and the feedback to it. */
import { MediaError, type NamedSection } from "../../protocol/media-node.ts";
import type { PublisherStreams } from "../fast-path/stream-table.ts";
import type { FlightRecorder } from "../flight/flight-recorder.ts";
import { Demux } from "../tracks/demux.ts";
import { Publication } from "../tracks/publication.ts";
import type { PublishedLayer } from "../tracks/published-layer.ts";
import { PublisherClock } from "../tracks/publisher-clock.ts";
import { PublisherFeedback } from "../tracks/publisher-feedback.ts";
import { parseRtcp, type RtcpPacket } from "../wire/rtcp/rtcp.ts";
import { RtpView } from "../wire/rtp/rtp.ts";
import { RtpExtensions } from "../wire/rtp/rtp-extensions.ts";
import type { AnsweredSection } from "../wire/sdp/answer.ts";
import type { NegotiatedCodec } from "../wire/sdp/codecs.ts";
import { type NegotiatedExtensions, noExtensions } from "../wire/sdp/extensions.ts";
import type { Offer } from "../wire/sdp/offer.ts";
import type { MediaOwner, ParticipantHost, RoomTracks, TrackOwner } from "./host.ts";
import { IncomingStreams, receiveSenderReport } from "./incoming-streams.ts";

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
  readonly #streams: IncomingStreams;
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

  constructor(host: ParticipantHost, room: RoomTracks, owner: MediaOwner & TrackOwner, flight: FlightRecorder) {
    this.#host = host;
    this.#room = room;
    this.#owner = owner;
    this.feedback = new PublisherFeedback((packet) => owner.connection?.sendRtcp(packet), host.udp.repairs);
    this.#streams = new IncomingStreams({
      flight,
      roomOf: () => room,
      arrivalsMemory: () => this.feedback.arrivalsMemory,
      recordedNatively: (ssrc) => this.feedback.recordedNatively(ssrc),
      expediteFeedback: () => host.expediteFeedback(),
      announce: (publication) => {
        if (publication.primary) return room.backupBegan(publication, publication.primary);
        room.announced(publication);
        owner.emit({ type: "trackPublished", track: publication.describe() });
      },
    });
  }

  get fastStreams(): PublisherStreams {
    return this.#streams.fastStreams;
  }

  /** The tracks, without their backups. */
  publications(): Publication[] {
    return [...this.#byMid.values()].filter(({ primary }) => !primary);
  }

  /** Returns the ids of the requested tracks; tracks that are known keep their ids. */
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
    this.#streams.setExtensions(this.#ids);
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
    return publish.flatMap((section) => {
      const publication = this.#byMid.get(section.mid) ?? this.#begin(section);
      // The track that this one backs up may have ended meanwhile.
      if (!publication) return [];
      publication.codecs = [...(this.#sections.get(section.mid)?.codecs.values() ?? [])];
      return { clientTrackId: publication.clientTrackId, trackId: publication.trackId };
    });
  }

  #begin(section: NamedSection): Publication | null {
    const { backupOf } = section;
    const primary = this.publications().find(({ trackId }) => trackId === backupOf);
    if (backupOf !== undefined && (primary?.kind !== section.kind || primary.backup)) return null;
    const incoming = this.#sections.get(section.mid);
    const publication = new Publication({
      ...section,
      ...(primary && { primary }),
      trackId: primary?.trackId ?? section.trackId ?? `trk_${this.#host.newId()}`,
      identity: this.#owner.self.identity,
      rids: incoming?.rids ?? [],
      extensions: incoming?.extensions ?? noExtensions(),
      udp: this.#host.udp,
      onUrgentFeedback: () => this.#host.expediteFeedback(),
      onLeaveFastPath: (left) => this.#streams.leaveFastPath(left),
    });
    this.#byMid.set(section.mid, publication);
    if (primary) {
      primary.backup = publication;
      publication.muted = primary.muted;
    } else this.#room.published(publication, this.#owner);
    return publication;
  }

  #end(publication: Publication): void {
    const { primary, backup } = publication;
    if (backup) this.#end(backup);
    this.#streams.end(publication);
    this.#byMid.delete(publication.mid);
    if (primary) {
      this.#room.backupEnded(publication, primary);
      return;
    }
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
    for (const one of [publication, publication.backup]) if (one) this.#streams.setMuted(one, muted);
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
    const codec = (name.repair ? section?.repairs : section?.codecs)?.get(view.payloadType);
    if (publication && layer && codec)
      this.#streams.receive(publication, layer, codec, name.repair, view, this.#extensions, nowMs);
  }

  /** Processes sender reports, and returns the parsed compound packet for the downlink. */
  receiveRtcp(data: Buffer, length: number, nowMs: number): RtcpPacket[] {
    const packets = parseRtcp(data, length);
    for (const packet of packets) {
      if (packet.type !== "sr") continue;
      const stream = this.#streamOf(packet.ssrc);
      if (stream) receiveSenderReport(packet, stream, this.#clock, this.#owner.rttMs, nowMs);
    }
    return packets;
  }

  /** Moves all streams together, so that those with rare reports stay synchronous. */
  #clockMoved(byMs: number): void {
    for (const publication of this.#byMid.values()) publication.clockMoved(byMs);
  }

  #streamOf(ssrc: number): { publication: Publication; layer: PublishedLayer } | null {
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
