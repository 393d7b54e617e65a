/** One who gets a publication: a viewer's subscription, or a recording of the track. */
import type { FanOutTarget } from "../forwarding/fan-out-target.ts";
import type { SourcePacket } from "../forwarding/source-packet.ts";
import type { Take, TakenRun } from "../forwarding/take.ts";
import type { ClockReference } from "../wire/rtp/timestamp-map.ts";
import type { PublishedLayer } from "./layer.ts";

/** What a publication knows of one who gets it. */
export interface Subscriber {
  /** Index of the layer it would get with bandwidth to spare: the one the publisher has to encode. */
  readonly desiredLayer: number | null;
  /** Set by `forward` when a keyframe's first packet came late: the packets after it are to be sent again from here. */
  catchUpFrom: number | null;
  /** The track is redundant audio, and it gets the newest frame of each packet. */
  readonly unwrapsRed: boolean;
  /** Null: not for this viewer. */
  forward(packet: SourcePacket, layer: PublishedLayer, nowMs: number): FanOutTarget | null;
  /** One who has this gets packets that come in order many at once, and is asked about no other than unusual ones. */
  forwardRun?(run: TakenRun, take: Take, layer: PublishedLayer, nowMs: number): void;
  /** Packets of the layer are nothing to it, until it wants something else or a keyframe comes. */
  ignores(layer: PublishedLayer): boolean;
  /** After `forward`: true when it need not be called any more, as the audience gets what this viewer gets. */
  join(packet: SourcePacket, layer: PublishedLayer, nowMs: number): boolean;
  /** The publication's first packet, or another codec. */
  sourceChanged(): void;
  /** A layer goes on as another stream. */
  restarted(layer: number): void;
  /** The publisher's clock of a layer has been told anew. */
  reported(layer: number, reference: ClockReference): void;
  /** All of the publisher's clocks lie elsewhere by so much than was known; `reported` follows. */
  clockMoved?(byMs: number): void;
  /** A voice has got or lost its place among those that are heard. */
  refreshAudio(nowMs: number): void;
}
