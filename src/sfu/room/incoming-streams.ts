/** The published streams that arrive on one connection: counted, repaired, and forwarded to the subscribers of their publications. */

import type { PacketRun, ReceiveBatch } from "../fast-path/receive-batch.ts";
import { type PublisherStreams, StreamTable } from "../fast-path/stream-table.ts";
import type { SlotTable } from "../fast-path/subscriber-slot.ts";
import type { FlightRecorder } from "../flight/flight-recorder.ts";
import { receivedReport } from "../forwarding/sender-report.ts";
import type { Publication } from "../tracks/publication.ts";
import type { PublishedLayer } from "../tracks/published-layer.ts";
import type { PublisherClock } from "../tracks/publisher-clock.ts";
import type { SenderReport } from "../wire/rtcp/rtcp.ts";
import type { RtpView } from "../wire/rtp/rtp.ts";
import type { RtpExtensions } from "../wire/rtp/rtp-extensions.ts";
import { unwrapRtx } from "../wire/rtp/rtx.ts";
import type { NegotiatedCodec } from "../wire/sdp/codecs.ts";
import type { NegotiatedExtensions } from "../wire/sdp/extensions.ts";
import type { RoomTracks } from "./host.ts";

type FastStream = { readonly publication: Publication; readonly layer: PublishedLayer };

type IncomingStreamsHost = {
  readonly flight: FlightRecorder;
  roomOf(publication: Publication): RoomTracks;
  /** Where native code records arrivals; null while there is nothing to record. */
  arrivalsMemory(): Float64Array | null;
  /** Called when native code has recorded the arrival of a packet with a transport-wide number. */
  recordedNatively(ssrc: number): void;
  expediteFeedback(): void;
  /** The first packet of the publication was forwarded. */
  announce(publication: Publication): void;
};

export class IncomingStreams {
  readonly #table = new StreamTable<FastStream>();
  readonly #fastStreams = new Map<PublishedLayer, FastStream>();
  readonly #host: IncomingStreamsHost;
  /** The streams whose packets native code may forward by itself. */
  readonly fastStreams: PublisherStreams = {
    table: this.#table,
    link: () => this.#table.link(this.#slotsOf),
    receiveRun: (run, batch, nowMs) => this.#receiveRun(run, batch, nowMs),
  };

  constructor(host: IncomingStreamsHost) {
    this.#host = host;
  }

  setExtensions(ids: NegotiatedExtensions): void {
    this.#table.setExtensions(ids);
  }

  /** Takes a packet of the layer, or an RTX packet that repeats one. */
  receive(
    publication: Publication,
    layer: PublishedLayer,
    codec: NegotiatedCodec,
    isRepair: boolean,
    view: RtpView,
    extensions: RtpExtensions,
    nowMs: number,
  ): void {
    if (layer.isStraggler(view.ssrc, nowMs)) return;
    if (isRepair) {
      layer.repairSsrc = view.ssrc;
      if (layer.ssrc === 0 || !unwrapRtx(view, layer.ssrc, codec.payloadType)) return;
      // Browsers probe the bandwidth by repeating packets that have already arrived. Those are not media.
      if (!layer.nack.receive(view.sequenceNumber, nowMs)) return;
    } else if (layer.ssrc !== view.ssrc) {
      const isFirst = layer.ssrc === 0;
      layer.restart(view.ssrc, codec.clockRate, nowMs);
      if (!isFirst) publication.restarted(layer);
    }
    const { reception } = layer;
    if (!reception) return;
    this.#closeFastStream(layer);
    this.#host.flight.received(view, isRepair, nowMs);
    const extended = reception.receive(view.sequenceNumber, view.timestamp, view.length, nowMs, isRepair);
    if (!isRepair) layer.nack.receive(view.sequenceNumber, nowMs);
    if (publication.kind === "audio" && extensions.audioLevel >= 0)
      this.#host.roomOf(publication).observeAudioLevel(publication, extensions.audioLevel, nowMs);
    if (layer.needsFeedbackNow) this.#host.expediteFeedback();
    publication.receive(layer, view, extended, codec, nowMs);
    if (!publication.announced) {
      publication.announced = true;
      this.#host.announce(publication);
    }
    this.#openFastStream(publication, layer);
  }

  /** After TypeScript has handled a packet of the stream, native code may forward the next ones. */
  #openFastStream(publication: Publication, layer: PublishedLayer): void {
    const terms = publication.fastStreamTerms(layer);
    if (!terms) return;
    let stream = this.#fastStreams.get(layer);
    if (!stream) {
      stream = { publication, layer };
      this.#fastStreams.set(layer, stream);
    }
    const { flight } = this.#host;
    this.#table.open(stream, terms, { arrived: this.#host.arrivalsMemory(), flight: flight.receivedMemory });
  }

  #closeFastStream(layer: PublishedLayer): void {
    const stream = this.#fastStreams.get(layer);
    if (stream) this.#table.close(stream);
  }

  leaveFastPath(publication: Publication): void {
    for (const layer of publication.layers) this.#closeFastStream(layer);
  }

  end(publication: Publication): void {
    this.leaveFastPath(publication);
    for (const layer of publication.layers) this.#fastStreams.delete(layer);
  }

  setMuted(publication: Publication, muted: boolean): void {
    publication.muted = muted;
    this.leaveFastPath(publication);
    for (const layer of publication.layers) layer.muted();
    this.#host.roomOf(publication).muteChanged(publication);
  }

  readonly #slotsOf = ({ publication, layer }: FastStream): SlotTable | null => {
    if (publication.kind === "audio" && !this.#host.roomOf(publication).isVoiceUncontested(publication)) return null;
    return layer.group.table;
  };

  /** Does the same as `receive` for packets that native code has received, recorded and sent. */
  #receiveRun(run: PacketRun, batch: ReceiveBatch, nowMs: number): void {
    const stream = this.#table.owner(run.stream);
    if (!stream) return;
    const { publication, layer } = stream;
    if (run.hasTransportNumber) this.#host.recordedNatively(layer.ssrc);
    layer.reception?.receiveNext(run.count, run.timestamp, run.bytes, nowMs);
    layer.nack.receiveNext(run.count);
    if (publication.kind === "audio" && run.audioLevel >= 0)
      this.#host.roomOf(publication).observeAudioLevel(publication, run.audioLevel, nowMs);
    publication.receiveRun(layer, run, batch, nowMs);
  }
}

/** Moves a sender report of the layer to the server's clock. */
export function receiveSenderReport(
  packet: SenderReport,
  { publication, layer }: FastStream,
  clock: PublisherClock,
  rttMs: number | null,
  nowMs: number,
): void {
  layer.reception?.senderReport(packet.ntpSeconds, packet.ntpFraction, nowMs);
  const { clockRate } = publication.codec ?? { clockRate: 0 };
  const report = receivedReport(packet, nowMs);
  const reference = clockRate > 0 && clock.place(layer.clock, report.reference, clockRate, nowMs, rttMs);
  if (!reference) return;
  layer.senderReport = { ...report, reference };
  publication.reported(layer);
}
