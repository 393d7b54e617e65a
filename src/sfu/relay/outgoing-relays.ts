/** The tracks of this worker on a link: each layer is sent while a subscriber on the other worker wants it. */
import type { RelayedTrack, RelayedTrackRef } from "../../protocol/media/relay.ts";
import type { TrackKind } from "../../protocol/room-records.ts";
import type { BackupCodec } from "../../protocol/signaling.ts";
import type { ParticipantHost, RoomLink } from "../room/host.ts";
import { ReportSender } from "../room/report-sender.ts";
import { OutgoingSection } from "../tracks/outgoing-section.ts";
import type { Publication } from "../tracks/publication.ts";
import type { PublishedLayer } from "../tracks/published-layer.ts";
import { DEFAULT_SUBSCRIPTION_SETTINGS, Subscription } from "../tracks/subscription.ts";
import type { Connection } from "../transport/connection.ts";
import type { RtcpPacket } from "../wire/rtcp/rtcp.ts";
import { SentPackets } from "../wire/rtcp/twcc-feedback.ts";
import type { NegotiatedCodec } from "../wire/sdp/codecs.ts";
import { LINK_EXTENSIONS, type LinkKind, relayedIdOf } from "./relayed-track.ts";

/** The round trip that is assumed until the first report. A packet is repeated at most once per round trip. */
const DEFAULT_RTT_MS = 5;
/** A keyframe that did not come is requested again. */
const ASK_AGAIN_MS = 500;
/** A layer that did not fit is sent again when it fits with this margin. */
const FITS_AGAIN = 1.1;
const SMOOTHING = 2;

type Stream = {
  publication: Publication;
  layer: PublishedLayer;
  section: OutgoingSection;
  isWanted: boolean;
  /** The bitrate while the stream was last sent; 0 before that. */
  bps: number;
  subscription: RelaySubscription | null;
};

/** Forwards one layer of a track unchanged, even of a quiet voice: the viewers' own worker chooses the loudest. */
class RelaySubscription extends Subscription {
  readonly #layer: PublishedLayer;
  readonly #now: () => number;

  constructor({ publication, layer, section }: Stream, sent: SentPackets, now: () => number) {
    super(publication, section, DEFAULT_SUBSCRIPTION_SETTINGS, sent, {
      changed() {},
      mayRequestKeyframe: () => true,
      awaitedSource() {},
    });
    this.#layer = layer;
    this.#now = now;
    this.want();
  }

  /** Asks the publisher for the layer, or for all spatial layers of its only stream, because a link carries those together. */
  want(): void {
    const { kind, choices, layers } = this.publication;
    if (kind === "video") this.desiredLayer = choices === layers ? this.#layer.index : (choices.at(-1)?.index ?? 0);
  }

  get isWaiting(): boolean {
    return this.section.forwarder?.wantsKeyframe ?? true;
  }

  /** A track and its backup cross the link as they are. */
  protected override choosePublication(): void {}

  override sourceChanged(): void {
    super.sourceChanged();
    this.refreshAudio(this.#now());
  }

  override refreshAudio(nowMs: number): void {
    this.setLayer(this.#layer, "requested", nowMs);
  }
}

type OfferedTrack = { roomId: string; streams: Stream[]; wantedBackup: BackupCodec | null };

type OutgoingOutput = {
  offered(track: RelayedTrack): void;
  muted(ref: RelayedTrackRef & { muted: boolean }): void;
  ended(ref: RelayedTrackRef): void;
};

export class OutgoingRelays implements RoomLink {
  readonly kind: LinkKind;
  readonly #host: ParticipantHost;
  readonly #linkId: string;
  readonly #connection: Connection;
  readonly #output: OutgoingOutput;
  readonly #tracks = new Map<Publication, OfferedTrack>();
  /** The relayed streams, by their SSRCs on the link. */
  readonly #streams = new Map<number, Stream>();
  readonly #reports: ReportSender;
  /** A link is measured as a whole, because its packets have no transport-wide sequence numbers. */
  readonly #sent = new SentPackets();
  #rttMs = DEFAULT_RTT_MS;
  #limit = Number.POSITIVE_INFINITY;
  #askedAtMs = 0;

  constructor(
    host: ParticipantHost,
    { linkId, kind }: { linkId: string; kind: LinkKind },
    connection: Connection,
    output: OutgoingOutput,
  ) {
    this.kind = kind;
    this.#host = host;
    this.#linkId = linkId;
    this.#connection = connection;
    this.#output = output;
    this.#reports = new ReportSender((packet) => connection.sendRtcp(packet));
  }

  /** How many streams are being sent. */
  get active(): number {
    let active = 0;
    for (const { subscription } of this.#streams.values()) if (subscription) active++;
    return active;
  }

  get rttMs(): number {
    return this.#rttMs;
  }

  setRtt(rttMs: number): void {
    this.#rttMs = rttMs;
  }

  offer(roomId: string, publication: Publication): void {
    const { codec, kind, identity, clientTrackId, mid, source, name, encryption, muted, primary, backup } = publication;
    if (!codec || (primary && this.wantedBackup(primary) === null)) return;
    // Lost audio is sent again on a link, even if the publisher cannot resend it.
    const codecs = publication.codecs.map((one) => ({ ...one, nack: true }));
    const known = this.#tracks.get(publication);
    const streams =
      known?.streams ??
      publication.layers.map((layer) => ({
        publication,
        layer,
        section: createSection(kind, codecs),
        subscription: null,
        isWanted: false,
        bps: 0,
      }));
    this.#tracks.set(publication, { roomId, streams, wantedBackup: known?.wantedBackup ?? null });
    for (const stream of streams) this.#streams.set(stream.section.stream.ssrc, stream);
    this.#output.offered({
      roomId,
      linkId: this.#linkId,
      trackId: relayedIdOf(publication),
      identity,
      clientTrackId,
      mid,
      kind,
      source,
      name,
      muted,
      codecs,
      ...(encryption && { encryption }),
      ...(primary && { backupOf: primary.trackId }),
      payloadType: codec.payloadType,
      layers: streams.map(({ layer: { rid }, section: { stream } }) => ({
        rid,
        ssrc: stream.ssrc,
        repairSsrc: stream.rtxSsrc,
      })),
    });
    if (backup?.announced) this.offer(roomId, backup);
  }

  wantedBackup(publication: Publication): BackupCodec | null {
    return this.#tracks.get(publication)?.wantedBackup ?? null;
  }

  /** The other worker needs the track of the stream in this codec too, or no longer. A backup that is sent already is offered to it. */
  wantBackup(ssrc: number, codec: BackupCodec | null): void {
    const publication = this.#streams.get(ssrc)?.publication;
    const offered = publication && this.#tracks.get(publication);
    if (!offered || offered.wantedBackup === codec) return;
    offered.wantedBackup = codec;
    const { backup } = publication;
    if (backup?.announced && !this.#tracks.has(backup)) this.offer(offered.roomId, backup);
  }

  muted(publication: Publication): void {
    const roomId = this.#tracks.get(publication)?.roomId;
    const trackId = relayedIdOf(publication);
    if (roomId !== undefined) this.#output.muted({ roomId, linkId: this.#linkId, trackId, muted: publication.muted });
  }

  end(publication: Publication): void {
    const offered = this.#tracks.get(publication);
    if (!offered) return;
    if (publication.backup) this.end(publication.backup);
    for (const stream of offered.streams) {
      this.#stop(stream);
      const { ssrc, rtxSsrc } = stream.section.stream;
      this.#streams.delete(ssrc);
      for (const ended of [ssrc, rtxSsrc]) this.#connection.forget(ended);
    }
    this.#tracks.delete(publication);
    this.#output.ended({ roomId: offered.roomId, linkId: this.#linkId, trackId: relayedIdOf(publication) });
  }

  want(ssrc: number, isWanted: boolean): void {
    const stream = this.#streams.get(ssrc);
    if (!stream) return;
    stream.isWanted = isWanted;
    if (isWanted !== (stream.subscription !== null)) this.fit(this.#limit, this.#host.now());
  }

  /** The bitrate in bits per second that would be sent without a limit. */
  get wantedBps(): number {
    let bps = 0;
    for (const stream of this.#streams.values()) if (stream.isWanted) bps += stream.bps;
    return bps;
  }

  /**
   * Sends all audio and the lowest layer of every video, and higher layers as far as they fit, screens first. The lowest layers
   * ignore the limit: a link may only seem slow because a machine is overloaded, and must not freeze a video.
   */
  fit(limit: number, nowMs: number): void {
    this.#limit = limit;
    const streams = [...this.#streams.values()];
    if (limit < Number.POSITIVE_INFINITY) streams.sort((a, b) => rankOf(a) - rankOf(b));
    let left = limit;
    for (const stream of streams) {
      const { isWanted, subscription, layer, publication } = stream;
      const isSent = subscription !== null;
      const bps = layer.rate.bitsPerSecond(nowMs);
      if (isSent && bps > 0) stream.bps = stream.bps === 0 ? bps : stream.bps + (bps - stream.bps) / SMOOTHING;
      const needed = isSent ? stream.bps : stream.bps * FITS_AGAIN;
      const sends = isWanted && (layer.index === lowestOf(publication) || needed <= left);
      if (sends) left -= stream.bps;
      if (sends && !isSent) this.#start(stream);
      if (!sends && isSent) this.#stop(stream);
    }
  }

  #start(stream: Stream): void {
    const { transport } = this.#connection;
    if (!transport) return;
    stream.subscription = new RelaySubscription(stream, this.#sent, this.#host.now);
    stream.subscription.start(transport);
  }

  #stop(stream: Stream): void {
    stream.subscription?.end();
    stream.subscription = null;
  }

  receiveRtcp(packets: readonly RtcpPacket[], nowMs: number): void {
    for (const packet of packets) {
      switch (packet.type) {
        case "nack":
          this.#host.udp.repairs.nacksIn += packet.lost.length;
          this.#streams
            .get(packet.mediaSsrc)
            ?.section.repair(packet.lost, this.#sent, { rttMs: this.#rttMs, take: () => true }, this.#host.udp, nowMs);
          break;
        case "pli":
          this.#host.udp.repairs.keyframesIn += 1;
          this.#streams.get(packet.mediaSsrc)?.subscription?.requestKeyframe();
          break;
        case "rr":
          for (const report of packet.reports) {
            const stream = this.#streams.get(report.ssrc);
            const tripMs = stream?.section.sentReports.roundTripMs(report, nowMs) ?? this.#rttMs;
            if (this.kind === "worker") this.#rttMs = tripMs;
            // The report of the viewers' worker includes the loss of its viewers.
            if (stream?.publication.kind === "audio") stream.publication.downlinkLost(report.fractionLost, nowMs);
          }
          break;
      }
    }
  }

  tick(nowMs: number): void {
    const asksAgain = nowMs - this.#askedAtMs >= ASK_AGAIN_MS;
    if (asksAgain) this.#askedAtMs = nowMs;
    const active: Subscription[] = [];
    for (const { subscription } of this.#streams.values()) {
      if (!subscription) continue;
      active.push(subscription);
      subscription.want();
      if (asksAgain && subscription.isWaiting) subscription.refreshAudio(nowMs);
    }
    this.#reports.tick(active, nowMs);
  }

  close(): void {
    for (const publication of [...this.#tracks.keys()]) this.end(publication);
  }
}

function createSection(kind: TrackKind, codecs: NegotiatedCodec[]): OutgoingSection {
  const direction = { rejected: false, sends: true, receives: false };
  return new OutgoingSection({ mid: "", kind, ...direction, codecs, extensions: LINK_EXTENSIONS }, kind);
}

const lowestOf = ({ layers }: Publication) => layers[0]?.index;

/** Streams with a lower rank are sent first. */
function rankOf({ publication: { kind, source }, layer }: Stream): number {
  if (kind === "audio") return -1;
  return layer.index * 2 + (source === "screenShare" ? 0 : 1);
}
