/**
 * The process that forwards a participant's tracks. It receives them in one room and publishes the same packets in the other, so
 * nothing is decoded. When the server ends, this process's input ends, and the process exits.
 */
import { createInterface } from "node:readline";
import { endFirstWithoutMemory } from "../../../kernel/own-command.ts";
import type { NegotiateAnswer } from "../../../protocol/media-node.ts";
import type { Layer } from "../../../protocol/room-records.ts";
import {
  MediaConnection,
  type Outgoing,
  type SubscribedTrack,
} from "../../../rtc-client/participant/media-connection.ts";
import { SimulatedNetwork } from "../../../rtc-client/participant/simulated-network.ts";
import type { PeerSection } from "../../../rtc-client/sdp.ts";
import { type ForwardedTrack, type FromForwarder, LAYERS, type ToForwarder } from "./messages.ts";

type WithoutRequest<Message> = Message extends unknown ? Omit<Message, "type" | "request"> : never;
type Offer = WithoutRequest<FromForwarder>;
/** `outgoing` is null until the other room has answered. Then it has one stream, or one for each layer. */
type Forwarded = ForwardedTrack & { isPublished: boolean; outgoing: Outgoing[] | null };

/** The RIDs of the layers, in order. */
const RIDS = ["q", "h", "f"];

export function runForwarder(): Promise<void> {
  endFirstWithoutMemory();
  const waiting = new Map<number, PromiseWithResolvers<NegotiateAnswer>>();
  let requests = 0;
  const done = Promise.withResolvers<void>();
  process.stdout.on("error", () => {});

  function negotiate(offer: Offer): Promise<NegotiateAnswer> {
    const request = ++requests;
    const answer = Promise.withResolvers<NegotiateAnswer>();
    waiting.set(request, answer);
    process.stdout.write(`${JSON.stringify({ type: "negotiate", request, ...offer })}\n`);
    return answer.promise;
  }

  const update = forward(negotiate, done.reject);
  const lines = createInterface({ input: process.stdin });
  lines.on("line", (line) => {
    const message = JSON.parse(line) as ToForwarder;
    if (message.type === "tracks") return update(message.tracks);
    const request = waiting.get(message.request);
    waiting.delete(message.request);
    if (message.answer === null) request?.reject(new Error(message.error ?? "refused"));
    else request?.resolve(message.answer);
  });
  lines.on("close", done.resolve);
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => {});
  return done.promise;
}

function forward(negotiate: (offer: Offer) => Promise<NegotiateAnswer>, failed: (error: unknown) => void) {
  let tracks = new Map<string, Forwarded>();
  const undecoded = { cipher: null, onAudio: () => {}, onVideo: () => {} };
  const sources = new Map<Layer, MediaConnection>();

  function outgoing({ trackId }: SubscribedTrack, layer: Layer): Outgoing | undefined {
    const track = tracks.get(trackId);
    return track?.outgoing?.[track.simulcast ? LAYERS.indexOf(layer) : 0];
  }

  function sourceOf(layer: Layer): MediaConnection {
    const known = sources.get(layer);
    if (known) return known;
    const source = new MediaConnection({
      ...undecoded,
      network: new SimulatedNetwork(),
      negotiate: ({ sdp, subscribe }) => negotiate({ room: "source", layer, sdp, subscribe: subscribe as never }),
      onPacket(received, packet) {
        const track = tracks.get(received.trackId);
        if (track && !track.isPublished) publish(track, packet.codec).catch(failed);
        outgoing(received, layer)?.forward(packet);
      },
      onReport: (received, ntpMs, timestamp) => outgoing(received, layer)?.report(ntpMs, timestamp),
    });
    sources.set(layer, source);
    source.connect([]).catch(failed);
    return source;
  }

  const destination = new MediaConnection({
    ...undecoded,
    network: new SimulatedNetwork(),
    negotiate: ({ sdp, publish }) => negotiate({ room: "destination", sdp, publish: publish as never }),
    onKeyframeRequest(trackId, at) {
      const layer = tracks.get(trackId)?.simulcast ? LAYERS[at] : "high";
      if (layer) sources.get(layer)?.requestKeyframe(trackId);
    },
  });
  const connected = destination.connect([]);
  connected.catch(failed);

  /** The first packet tells the codec in which the track has to be published. */
  async function publish(track: Forwarded, codec: string): Promise<void> {
    track.isPublished = true;
    const { trackId: clientTrackId, kind, source: from, name, simulcast } = track;
    const published = { clientTrackId, kind, source: from, ...(name !== undefined && { name }) };
    await connected;
    track.outgoing = await destination.publishLayers(
      published,
      kind === "video" ? (codec as PeerSection["codec"]) : undefined,
      simulcast ? RIDS : [],
    );
    for (const source of sources.values()) source.requestKeyframe(clientTrackId);
  }

  return (wanted: readonly ForwardedTrack[]): void => {
    const known = tracks;
    tracks = new Map(
      wanted.map((track) => [
        track.trackId,
        known.get(track.trackId) ?? { ...track, isPublished: false, outgoing: null },
      ]),
    );
    for (const trackId of known.keys()) if (!tracks.has(trackId)) destination.unpublish(trackId).catch(failed);
    for (const layer of LAYERS) {
      const carried = wanted.filter(({ simulcast }) => simulcast || layer === "high");
      if (carried.length === 0 && !sources.has(layer)) continue;
      const received = carried.map(({ trackId, kind }) => ({ trackId, identity: "", kind, encrypted: false }));
      sourceOf(layer).subscribe(received).catch(failed);
    }
  };
}
