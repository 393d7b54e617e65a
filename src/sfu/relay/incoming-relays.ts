/** The tracks of another worker on a link, which are publications of this worker's rooms as though their publishers were here. */
import type { RelayedTrack, RelayedTrackRef } from "../../protocol/media/relay.ts";
import type { BackupCodec } from "../../protocol/signaling.ts";
import { FlightRecorder } from "../flight/flight-recorder.ts";
import type { ParticipantHost, RoomTracks, TrackOwner } from "../room/host.ts";
import { IncomingStreams, receiveSenderReport } from "../room/incoming-streams.ts";
import { Publication } from "../tracks/publication.ts";
import type { PublishedLayer } from "../tracks/published-layer.ts";
import { PublisherClock } from "../tracks/publisher-clock.ts";
import { type PathLoss, PublisherFeedback, randomSsrc } from "../tracks/publisher-feedback.ts";
import type { Connection } from "../transport/connection.ts";
import type { RtcpPacket } from "../wire/rtcp/rtcp.ts";
import { TwccRecorder } from "../wire/rtcp/twcc.ts";
import { RtpView } from "../wire/rtp/rtp.ts";
import { RtpExtensions } from "../wire/rtp/rtp-extensions.ts";
import type { NegotiatedCodec } from "../wire/sdp/codecs.ts";
import { LINK_EXTENSIONS, type LinkKind, relayedIdOf } from "./relayed-track.ts";

/** What this worker asks of the other. */
type Wants = {
  want(ssrc: number, isWanted: boolean): void;
  /** `ssrc` is the first stream of the track. */
  wantBackup(ssrc: number, codec: BackupCodec | null): void;
  forget(ssrc: number): void;
};

type Stream = {
  publisher: RelayedPublisher;
  publication: Publication;
  layer: PublishedLayer;
  isRepair: boolean;
};

/** Lost audio is requested again only on links shorter than this, because a repeated packet would otherwise come too late. */
const MAX_AUDIO_REPAIR_RTT_MS = 100;

/** The link, as its incoming tracks use it. `rttMs` is null between workers of one node. */
type Way = { readonly kind: LinkKind; readonly rttMs: number | null; readonly path: PathLoss };

/** One participant of the other worker, as the room that has its tracks uses it. */
class RelayedPublisher implements TrackOwner {
  /** By their ids on the link. */
  readonly tracks = new Map<string, { publication: Publication; ssrcs: Map<PublishedLayer, number> }>();
  readonly clock = new PublisherClock((byMs) => {
    for (const { publication } of this.tracks.values()) publication.clockMoved(byMs);
  });
  readonly #feedback: PublisherFeedback;
  readonly #wants: Wants;
  readonly #way: Way;

  constructor(
    readonly room: RoomTracks,
    feedback: PublisherFeedback,
    way: Way,
    wants: Wants,
  ) {
    this.#feedback = feedback;
    this.#way = way;
    this.#wants = wants;
  }

  get uplink(): TrackOwner["uplink"] {
    return this;
  }

  isBusy(): boolean {
    return false;
  }

  get isUrgent(): boolean {
    for (const { publication } of this.tracks.values())
      for (const layer of publication.layers) if (layer.needsFeedbackNow) return true;
    return false;
  }

  tick(nowMs: number): void {
    const publications = [...this.tracks.values()].map(({ publication }) => publication);
    for (const publication of publications) this.#raise(publication);
    const { rttMs } = this.#way;
    if (rttMs !== null && rttMs >= MAX_AUDIO_REPAIR_RTT_MS)
      for (const { kind, layers } of publications)
        if (kind === "audio") for (const { nack } of layers) nack.takeDue(nowMs);
    this.#feedback.tick(publications, rttMs, nowMs);
  }

  /** The first frame of a subscriber must not wait for the next periodic check of what is wanted. */
  #raise(publication: Publication): void {
    let wanted = -1;
    for (const { desiredLayer } of publication.subscriptions) wanted = Math.max(wanted, desiredLayer ?? -1);
    for (const layer of publication.layers) if (layer.index <= wanted) this.#wantLayer(publication, layer, true);
    // The room lowers what is wanted of its tracks, which a backup is not.
    if (publication.primary && publication.subscriptions.length === 0)
      for (const layer of publication.layers) this.#wantLayer(publication, layer, false);
  }

  #wantLayer(publication: Publication, layer: PublishedLayer, isWanted: boolean): void {
    const ssrc = this.tracks.get(relayedIdOf(publication))?.ssrcs.get(layer);
    if (ssrc !== undefined) this.#wants.want(ssrc, isWanted);
  }

  emit(event: Parameters<TrackOwner["emit"]>[0]): void {
    if (event.type !== "layersWanted" && event.type !== "codecsWanted") return;
    const { publication, ssrcs } = this.tracks.get(event.trackId) ?? {};
    if (!publication || !ssrcs) return;
    if (event.type === "codecsWanted") {
      const [first] = ssrcs.values();
      if (first !== undefined) this.#wants.wantBackup(first, event.codecs[0] ?? null);
      return;
    }
    const wanted = new Set(event.layers);
    for (const layer of publication.layers)
      this.#wantLayer(publication, layer, wanted.has(publication.layerName(layer.index)));
  }
}

export class IncomingRelays {
  readonly #host: ParticipantHost;
  readonly #connection: Connection;
  readonly #way: Way;
  readonly #wants: Wants;
  /** By room and identity. */
  readonly #publishers = new Map<string, Map<string, RelayedPublisher>>();
  readonly #streams = new Map<number, Stream>();
  readonly #rooms = new Map<Publication, RoomTracks>();
  readonly #incoming: IncomingStreams;
  readonly #feedbackSsrc = randomSsrc();
  readonly #flight = new FlightRecorder();
  readonly #arrivals = new TwccRecorder();
  readonly #view = new RtpView();
  readonly #extensions = new RtpExtensions();

  constructor(host: ParticipantHost, way: Way, connection: Connection, wants: Wants) {
    this.#way = way;
    this.#host = host;
    this.#connection = connection;
    this.#wants = wants;
    this.#incoming = new IncomingStreams({
      flight: this.#flight,
      roomOf: (publication) => this.#roomOf(publication),
      arrivalsMemory: () => this.#arrivals.memory,
      recordedNatively() {},
      expediteFeedback: () => host.expediteFeedback(),
      announce() {},
    });
    this.#incoming.setExtensions(LINK_EXTENSIONS);
  }

  get fastStreams() {
    return this.#incoming.fastStreams;
  }

  get streams(): number {
    return this.#streams.size;
  }

  #roomOf(publication: Publication): RoomTracks {
    const room = this.#rooms.get(publication);
    if (!room) throw new Error(`the relayed track ${publication.trackId} is in no room`);
    return room;
  }

  add(room: RoomTracks, track: RelayedTrack): void {
    const publisher = this.#publisher(room, track);
    if (publisher.tracks.has(track.trackId)) {
      this.setMuted(track, track.muted);
      return;
    }
    // The track of another participant, whose worker it is.
    if (room.publication(track.trackId)) return;
    const primary = track.backupOf === undefined ? undefined : publisher.tracks.get(track.backupOf)?.publication;
    if (track.backupOf !== undefined && (!primary || primary.backup)) return;
    const publication = new Publication({
      ...track,
      ...(primary && { primary, trackId: primary.trackId }),
      name: track.name ?? undefined,
      rids: track.layers.flatMap(({ rid }) => rid ?? []),
      extensions: LINK_EXTENSIONS,
      udp: this.#host.udp,
      origin: this.#way.kind,
      onUrgentFeedback: () => this.#host.expediteFeedback(),
      onLeaveFastPath: (left) => this.#incoming.leaveFastPath(left),
    });
    publication.codecs = track.codecs;
    const codec = codecOf(publication, track.payloadType, false);
    if (codec) publication.changeCodec(codec);
    publication.muted = track.muted;
    publication.announced = true;
    const ssrcs = new Map<PublishedLayer, number>();
    for (const { rid, ssrc, repairSsrc } of track.layers) {
      const layer = publication.layerOf(rid);
      if (!layer) continue;
      ssrcs.set(layer, ssrc);
      this.#streams.set(ssrc, { publisher, publication, layer, isRepair: false });
      this.#streams.set(repairSsrc, { publisher, publication, layer, isRepair: true });
    }
    publisher.tracks.set(track.trackId, { publication, ssrcs });
    this.#rooms.set(publication, room);
    if (primary) {
      primary.backup = publication;
      room.backupBegan(publication, primary);
      return;
    }
    room.published(publication, publisher);
    room.announced(publication);
    // All audio is relayed, because the loudest speakers are chosen among all, and recordings need all.
    if (track.kind === "audio") for (const ssrc of ssrcs.values()) this.#wants.want(ssrc, true);
  }

  #publisher(room: RoomTracks, { roomId, identity }: RelayedTrack): RelayedPublisher {
    const inRoom = this.#publishers.get(roomId) ?? new Map<string, RelayedPublisher>();
    this.#publishers.set(roomId, inRoom);
    const send = (packet: Uint8Array) => this.#connection.sendRtcp(packet);
    const publisher =
      inRoom.get(identity) ??
      new RelayedPublisher(
        room,
        new PublisherFeedback(send, this.#host.udp.repairs, this.#feedbackSsrc, this.#way.path),
        this.#way,
        this.#wants,
      );
    inRoom.set(identity, publisher);
    return publisher;
  }

  setMuted({ roomId, trackId }: RelayedTrackRef, muted: boolean): void {
    for (const { tracks } of this.#publishers.get(roomId)?.values() ?? []) {
      const publication = tracks.get(trackId)?.publication;
      if (publication && publication.muted !== muted) this.#incoming.setMuted(publication, muted);
    }
  }

  remove({ roomId, trackId }: Pick<RelayedTrackRef, "roomId" | "trackId">): void {
    const inRoom = this.#publishers.get(roomId);
    for (const [identity, publisher] of inRoom ?? []) {
      if (publisher.tracks.has(trackId)) this.#end(publisher, trackId);
      if (publisher.tracks.size === 0) inRoom?.delete(identity);
    }
    if (inRoom?.size === 0) this.#publishers.delete(roomId);
  }

  #end(publisher: RelayedPublisher, trackId: string): void {
    const publication = publisher.tracks.get(trackId)?.publication;
    if (!publication) return;
    const { primary, backup } = publication;
    if (backup) this.#end(publisher, relayedIdOf(backup));
    publisher.tracks.delete(trackId);
    this.#incoming.end(publication);
    for (const [ssrc, stream] of this.#streams) {
      if (stream.publication !== publication) continue;
      this.#streams.delete(ssrc);
      this.#wants.forget(ssrc);
      this.#connection.forget(ssrc);
    }
    if (primary) publisher.room.backupEnded(publication, primary);
    else publisher.room.unpublished(publication);
    this.#rooms.delete(publication);
  }

  removeRoom(roomId: string): void {
    for (const publisher of this.#publishers.get(roomId)?.values() ?? [])
      for (const trackId of [...publisher.tracks.keys()]) this.#end(publisher, trackId);
    this.#publishers.delete(roomId);
  }

  receiveRtp(data: Uint8Array, length: number, nowMs: number): void {
    const view = this.#view;
    if (!view.parse(data, length)) return;
    const stream = this.#streams.get(view.ssrc);
    const codec = stream && codecOf(stream.publication, view.payloadType, stream.isRepair);
    if (!stream || !codec) {
      // These are the last packets of a track that has ended.
      if (!stream) this.#connection.forget(view.ssrc);
      return;
    }
    this.#extensions.read(view, LINK_EXTENSIONS);
    const { publication, layer, isRepair } = stream;
    this.#incoming.receive(publication, layer, codec, isRepair, view, this.#extensions, nowMs);
  }

  receiveRtcp(packets: readonly RtcpPacket[], rttMs: number, nowMs: number): void {
    for (const packet of packets) {
      if (packet.type !== "sr") continue;
      const stream = this.#streams.get(packet.ssrc);
      if (stream) receiveSenderReport(packet, stream, stream.publisher.clock, rttMs, nowMs);
    }
  }

  close(): void {
    for (const roomId of [...this.#publishers.keys()]) this.removeRoom(roomId);
  }
}

function codecOf({ codecs }: Publication, payloadType: number, isRepair: boolean): NegotiatedCodec | null {
  for (const codec of codecs) if ((isRepair ? codec.rtxPayloadType : codec.payloadType) === payloadType) return codec;
  return null;
}
