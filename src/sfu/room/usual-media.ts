/**
 * What one participant sends, as long as it is as usual: packets in order, all of whose viewers have seats. They come here many
 * at once, opened and noted already; what remains is to count them, to keep them, and to send their copies.
 */
import type { FlightRecorder } from "../flight/flight-recorder.ts";
import { LaneTable } from "../forwarding/lanes.ts";
import type { SeatTable } from "../forwarding/seat-table.ts";
import type { Take, TakenRun } from "../forwarding/take.ts";
import type { Publication } from "../tracks/publication.ts";
import type { PublishedLayer } from "../tracks/published-layer.ts";
import type { PublisherFeedback } from "../tracks/publisher-feedback.ts";
import type { MediaSink } from "../transport/incoming-media.ts";
import type { RoomTracks } from "./host.ts";

type Stream = { readonly publication: Publication; readonly layer: PublishedLayer };

export type UsualMediaParts = {
  room: RoomTracks;
  feedback: PublisherFeedback;
  flight: FlightRecorder;
  /** For a packet that turns out not to be usual. */
  receiveRtp(data: Uint8Array, length: number, nowMs: number): void;
};

export class UsualMedia implements MediaSink {
  readonly lanes = new LaneTable<Stream>();
  readonly #streams = new Map<PublishedLayer, Stream>();
  readonly #parts: UsualMediaParts;

  constructor(parts: UsualMediaParts) {
    this.#parts = parts;
  }

  /** After an ordinary packet of the layer: what comes next in order may be usual. */
  resume(publication: Publication, layer: PublishedLayer): void {
    const terms = publication.laneTerms(layer);
    if (!terms) return;
    let stream = this.#streams.get(layer);
    if (!stream) {
      stream = { publication, layer };
      this.#streams.set(layer, stream);
    }
    const { feedback, flight } = this.#parts;
    this.lanes.open(stream, terms, { came: feedback.arrivalsMemory, seen: flight.receivedMemory });
  }

  /** Until its next ordinary packet, nothing about the layer is usual. */
  interrupt(layer: PublishedLayer): void {
    const stream = this.#streams.get(layer);
    if (stream) this.lanes.close(stream);
  }

  interruptAll(publication: Publication): void {
    for (const layer of publication.layers) this.interrupt(layer);
  }

  ended(publication: Publication): void {
    this.interruptAll(publication);
    for (const layer of publication.layers) this.#streams.delete(layer);
  }

  seat(): boolean {
    return this.lanes.seat(this.#seatsOf);
  }

  readonly #seatsOf = ({ publication, layer }: Stream): SeatTable | null => {
    if (publication.kind === "audio" && !this.#parts.room.isVoiceUncontested(publication)) return null;
    return publication.seatsOf(layer);
  };

  onRun(run: TakenRun, take: Take, nowMs: number): void {
    const { room, feedback } = this.#parts;
    const stream = this.lanes.owner(run.lane);
    if (!stream) {
      this.#oneByOne(run, take, nowMs);
      return;
    }
    const { publication, layer } = stream;
    if (run.numbered) feedback.recordedNatively(layer.ssrc);
    layer.reception?.receiveNext(run.count, run.timestamp, run.bytes, nowMs);
    if (publication.kind === "video") layer.nack.receiveNext(run.count);
    else if (run.audioLevel >= 0) room.observeAudioLevel(publication, run.audioLevel, nowMs);
    publication.receiveRun(layer, run, take, nowMs);
  }

  /** Something that came before them has closed their lane. */
  #oneByOne({ first, count }: TakenRun, take: Take, nowMs: number): void {
    for (let i = first; i < first + count; i++) this.#parts.receiveRtp(take.datagram(i), take.plainLength(i), nowMs);
  }
}
