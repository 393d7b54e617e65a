/** The media connection of a headless participant: its sections, and the tracks that it sends and receives on them. */
import type { DataChannelLike } from "../../protocol/data/data-channels.ts";
import type { RoomData } from "../../protocol/data/room-data.ts";
import type { NegotiateAnswer } from "../../protocol/media-node.ts";
import type { Track, TrackKind, TrackSource } from "../../protocol/room-records.ts";
import { createSctpClient, type SctpClient } from "../../sfu/werift/werift-hooks.ts";
import { NackGenerator } from "../../sfu/wire/rtcp/nack-generator.ts";
import type { SenderReport } from "../../sfu/wire/rtcp/rtcp.ts";
import { writeNack, writePli, writeSenderReport } from "../../sfu/wire/rtcp/rtcp-write.ts";
import { ntpFromMs, ntpToMs } from "../../sfu/wire/rtp/ntp.ts";
import type { RtpView } from "../../sfu/wire/rtp/rtp.ts";
import { unwrapRtx } from "../../sfu/wire/rtp/rtx.ts";
import { RtcPeer } from "../peer.ts";
import { RtpSource } from "../rtp-source.ts";
import { type PeerSection, readAnswer, type SectionAnswer } from "../sdp.ts";
import { AudioReceiver } from "./audio-receiver.ts";
import type { EncodedVideo, Pcm } from "./participant-events.ts";
import type { SimulatedNetwork } from "./simulated-network.ts";
import type { TrackCipher } from "./track-cipher.ts";
import { VideoReceiver } from "./video-receiver.ts";

const REMB_EVERY_MS = 500;
/** Far more than any track needs, so that the server's bandwidth estimate does not limit reception. */
const REMB_BPS = 20_000_000;
const PLI_EVERY_MS = 500;
const NACK_EVERY_MS = 20;
/** The size of the header, two SSRCs and the SRTCP overhead. */
const NACK_BYTES = 64;
/** A packet of 64 KB and its framing. */
const MAX_DATA_MESSAGE_BYTES = 70_000;
const RECEIVABLE = ["VP8", "VP9", "H264", "AV1"] as const;

export type SubscribedTrack = {
  trackId: string;
  identity: string;
  kind: TrackKind;
  encrypted: boolean;
  /** For video: only layers up to this height are delivered. */
  maxHeight?: number;
};
type Published = {
  clientTrackId: string;
  kind: TrackKind;
  source: TrackSource;
  name?: string;
  encryption?: Track["encryption"];
};
type Section = {
  offered: PeerSection;
  publishes: Published | null;
  receives: SubscribedTrack | null;
  /** The SSRCs of the streams that are sent, in the order of their RIDs. */
  ssrcs: readonly number[];
};
type Receiver = {
  track: SubscribedTrack;
  ssrc: number;
  payloadType: number;
  add(view: RtpView, audioLevel: number): void;
  requestKeyframe?(): void;
  close(): void;
};

type MediaConnectionDeps = {
  network: SimulatedNetwork;
  /** Omitted for a connection without data channels. */
  data?: RoomData;
  cipher: TrackCipher | null;
  negotiate: (offer: { sdp: string; publish?: unknown; subscribe?: unknown }) => Promise<NegotiateAnswer>;
  /** The number of channels that audio is decoded to; 1 by default. */
  channels?: 1 | 2;
  /** Changes the height of subscribed tracks without an offer. */
  update?: (tracks: { trackId: string; mid: string; maxHeight?: number }[]) => void;
  /** A sender report: when, on its publisher's clock, the sample with this RTP timestamp was captured. */
  onReport?: (track: SubscribedTrack, ntpMs: number, rtpTimestamp: number) => void;
  /** `timestamp` is the RTP timestamp of the first sample. */
  onAudio: (track: SubscribedTrack, pcm: Pcm, timestamp: number) => void;
  onVideo: (track: SubscribedTrack, frame: EncodedVideo) => void;
  /** Gets the packets of all tracks, which are then not decoded. */
  onPacket?: (track: SubscribedTrack, packet: TrackPacket) => void;
  /** A subscriber of this published video needs a keyframe; `layer` is the position of the stream among its RIDs. */
  onKeyframeRequest?: (clientTrackId: string, layer: number) => void;
};

/**
 * A packet of a track, which can be forwarded unchanged on another connection. `audioLevel` is undefined without the header
 * extension.
 */
type TrackPacket = {
  codec: string;
  sequenceNumber: number;
  timestamp: number;
  marker: boolean;
  payload: Uint8Array;
  audioLevel: number | undefined;
};

/** A track that this participant sends, or one of its simulcast streams. */
export type Outgoing = {
  trackId: string;
  send(payload: Uint8Array, marker: boolean, timestamp: number, audioLevel?: number): void;
  /** Sends a packet that another connection has received, once each. Packets that were lost there are missing here too. */
  forward(packet: TrackPacket): void;
  /** Reports when the sample with this timestamp was captured, on its publisher's clock. */
  report(ntpMs: number, timestamp: number): void;
};

export class MediaConnection {
  readonly #deps: MediaConnectionDeps;
  readonly #sections: Section[] = [];
  readonly #receivers = new Map<number, Receiver>();
  readonly #sent = new RetransmissionBuffer();
  readonly #transportNumbers = { next: 0 };
  #answers: SectionAnswer[] = [];
  #peer: RtcPeer | null = null;
  #sctp: SctpClient | null = null;
  #connected = new AbortController();
  #negotiating: Promise<unknown> = Promise.resolve();
  #timer: ReturnType<typeof setInterval> | null = null;

  constructor(deps: MediaConnectionDeps) {
    this.#deps = deps;
  }

  /** Connects and subscribes to tracks. One audio section without a track makes the participant visible to others. */
  connect(wanted: readonly SubscribedTrack[]): Promise<void> {
    return this.#next(() => this.#connect(wanted));
  }

  async #connect(wanted: readonly SubscribedTrack[]): Promise<void> {
    if (this.#sections.length === 0) this.#sections.push(receiving("audio"));
    this.#place(wanted);
    const { network, negotiate } = this.#deps;
    this.#peer = await RtcPeer.create({
      node: { negotiate },
      roomId: "",
      participantId: "",
      sections: this.#sections.map(({ offered }) => offered),
      openSocket: network.open,
      ...(this.#deps.data && { onData: (packet) => this.#sctp?.deliver(packet) }),
      onRtp: (view, _peer, mid, { audioLevel }) => this.#receive(view, mid, audioLevel),
      onRtcp: (packet, peer) => {
        if (packet.type === "sr") this.#reported(packet);
        if (packet.type === "pli") this.#keyframeRequested(packet.mediaSsrc);
        if (packet.type !== "nack") return;
        for (const bytes of this.#sent.find(packet.mediaSsrc, packet.lost)) peer.sendRaw(bytes);
      },
    });
    await this.#peer.connect(this.#publish(), this.#subscribe());
    this.#answers = readAnswer(this.#peer.answerSdp);
    this.#timer = setInterval(() => this.#peer?.sendRemb(REMB_BPS), REMB_EVERY_MS);
    this.#peer.sendRemb(REMB_BPS);
    if (this.#deps.data) this.#openData(this.#peer, this.#deps.data);
  }

  #openData(peer: RtcPeer, data: RoomData): void {
    const sctp = createSctpClient(MAX_DATA_MESSAGE_BYTES, (packet) => peer.sendData(packet));
    this.#sctp = sctp;
    this.#connected = new AbortController();
    data.connect({
      ended: this.#connected.signal,
      addChannel: (label, options = {}) => channelLike(sctp.open(label, options)),
    });
  }

  /** Replaces the connection; published tracks are offered again. */
  async reconnect(wanted: readonly SubscribedTrack[]): Promise<void> {
    this.close();
    for (const section of this.#sections) section.receives = null;
    await this.connect(wanted);
  }

  /** Subscribes to exactly these tracks. */
  subscribe(wanted: readonly SubscribedTrack[]): Promise<void> {
    return this.#next(async () => {
      if (this.#place(wanted)) await this.#negotiate();
    });
  }

  async publish(published: Published, codec?: PeerSection["codec"]): Promise<Outgoing> {
    const [outgoing] = await this.publishLayers(published, codec, []);
    return outgoing as Outgoing;
  }

  /** Publishes one stream for each RID, or a single one without any. */
  async publishLayers(
    published: Published,
    codec: PeerSection["codec"] | undefined,
    rids: readonly string[],
  ): Promise<Outgoing[]> {
    const names = rids.length > 0 ? rids : [undefined];
    const ssrcs = names.map(() => 1 + Math.floor(Math.random() * 0xfffffffe));
    const section: Section = {
      offered: {
        kind: published.kind,
        direction: "sendonly",
        ...(codec && { codec }),
        ...(rids.length > 0 ? { rids: [...rids] } : { ssrc: ssrcs[0] }),
      },
      publishes: published,
      receives: null,
      ssrcs,
    };
    const mid = String(this.#sections.length);
    const tracks = await this.#next(() => {
      this.#sections.push(section);
      return this.#negotiate();
    });
    const trackId = tracks.find(({ clientTrackId }) => clientTrackId === published.clientTrackId)?.trackId ?? "";
    return names.map((rid, at) => this.#outgoing(section, trackId, { mid, rid, ssrc: ssrcs[at] ?? 0 }));
  }

  #outgoing(section: Section, trackId: string, name: { mid: string; rid: string | undefined; ssrc: number }): Outgoing {
    const { kind } = section.offered;
    const { ssrc } = name;
    const payloadType = kind === "audio" ? 111 : 96;
    const firstSequence = 1_000 + Math.floor(Math.random() * 30_000);
    const offset = Math.floor(Math.random() * 0x7fffffff);
    const source = new RtpSource({ ...name, payloadType, firstSequence, numbers: this.#transportNumbers });
    const send = (payload: Uint8Array, marker: boolean, timestamp: number, audioLevel?: number) => {
      if (!section.publishes || !this.#peer?.outgoing) return;
      source.options.audioLevel = audioLevel;
      source.timestamp = (timestamp + offset) >>> 0;
      const { packet, headerLength, length } = source.build(payload, marker);
      const bytes = packet.subarray(0, this.#peer.outgoing.protectRtp(packet, headerLength, length));
      if (kind === "video") this.#sent.keep(ssrc, (source.sequenceNumber - 1) & 0xffff, bytes);
      this.#peer.sendRaw(bytes);
    };
    let firstForwarded: number | null = null;
    return {
      trackId,
      send,
      forward: ({ sequenceNumber, payload, marker, timestamp, audioLevel }) => {
        firstForwarded ??= sequenceNumber;
        source.sequenceNumber = (firstSequence + sequenceNumber - firstForwarded) & 0xffff;
        send(payload, marker, timestamp, audioLevel);
      },
      report: (ntpMs, timestamp) => {
        const { seconds: ntpSeconds, fraction: ntpFraction } = ntpFromMs(ntpMs);
        const out = new Uint8Array(64);
        const rtpTimestamp = (timestamp + offset) >>> 0;
        const report = { ssrc, ntpSeconds, ntpFraction, rtpTimestamp, packetCount: 0, octetCount: 0 };
        this.#peer?.sendRtcp(out, writeSenderReport(out, 0, report));
      },
    };
  }

  /** Stops sending on the track's section, which remains, because media sections are never removed. */
  unpublish(clientTrackId: string): Promise<void> {
    return this.#next(async () => {
      const section = this.#sections.find(({ publishes }) => publishes?.clientTrackId === clientTrackId);
      if (section) section.publishes = null;
    });
  }

  close(): void {
    if (this.#timer) clearInterval(this.#timer);
    for (const receiver of this.#receivers.values()) receiver.close();
    this.#receivers.clear();
    this.#connected.abort();
    this.#sctp?.close();
    this.#sctp = null;
    this.#peer?.close();
    this.#peer = null;
  }

  /** Asks the publisher of a video track for a keyframe. */
  requestKeyframe(trackId: string): void {
    for (const { track, requestKeyframe } of this.#receivers.values())
      if (track.trackId === trackId) requestKeyframe?.();
  }

  #keyframeRequested(ssrc: number): void {
    const section = this.#sections.find(({ ssrcs }) => ssrcs.includes(ssrc));
    if (section?.publishes)
      this.#deps.onKeyframeRequest?.(section.publishes.clientTrackId, section.ssrcs.indexOf(ssrc));
  }

  #reported({ ssrc, ntpSeconds, ntpFraction, rtpTimestamp }: SenderReport): void {
    for (const receiver of this.#receivers.values()) {
      if (receiver.ssrc === ssrc) this.#deps.onReport?.(receiver.track, ntpToMs(ntpSeconds, ntpFraction), rtpTimestamp);
    }
  }

  /** Runs negotiations one at a time. */
  #next<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#negotiating.then(work);
    this.#negotiating = done.catch(() => {});
    return done;
  }

  async #negotiate() {
    const peer = this.#peer;
    if (!peer) return [];
    peer.options.sections = this.#sections.map(({ offered }) => offered);
    const tracks = await peer.negotiate(this.#publish(), this.#subscribe());
    this.#answers = readAnswer(peer.answerSdp);
    return tracks;
  }

  /** Assigns tracks to free or new sections; returns true when a negotiation is needed. */
  #place(wanted: readonly SubscribedTrack[]): boolean {
    let changed = false;
    const resized: { trackId: string; mid: string; maxHeight?: number }[] = [];
    for (const section of this.#sections) {
      if (!section.receives || wanted.some(({ trackId }) => trackId === section.receives?.trackId)) continue;
      section.receives = null;
      changed = true;
    }
    for (const track of wanted) {
      const index = this.#sections.findIndex(({ receives }) => receives?.trackId === track.trackId);
      const received = this.#sections[index]?.receives;
      if (received) {
        if (received.maxHeight === track.maxHeight) continue;
        received.maxHeight = track.maxHeight;
        resized.push({ trackId: track.trackId, mid: String(index), maxHeight: track.maxHeight });
        continue;
      }
      const free = this.#sections.find(
        ({ offered, receives }) => offered.direction === "recvonly" && offered.kind === track.kind && !receives,
      );
      const section = free ?? receiving(track.kind);
      section.receives = { ...track };
      if (!free) this.#sections.push(section);
      changed = true;
    }
    if (!changed && resized.length > 0) this.#deps.update?.(resized);
    return changed;
  }

  #publish() {
    return this.#sections.flatMap(({ publishes }, index) => (publishes ? [{ mid: String(index), ...publishes }] : []));
  }

  #subscribe() {
    return this.#sections.flatMap(({ receives }, index) =>
      receives
        ? [
            {
              mid: String(index),
              trackId: receives.trackId,
              ...(receives.maxHeight === undefined ? {} : { maxHeight: receives.maxHeight }),
            },
          ]
        : [],
    );
  }

  #receive(view: RtpView, mid: string | undefined, audioLevel: number): void {
    const index = mid === undefined ? this.#answers.findIndex(({ ssrcs }) => ssrcs.includes(view.ssrc)) : Number(mid);
    const track = this.#sections[index]?.receives;
    const codec = this.#answers[index]?.codecs.get(view.payloadType);
    if (!track || !codec) return;
    let receiver = this.#receivers.get(index);
    if (codec === "rtx") {
      if (receiver?.track === track && unwrapRtx(view, receiver.ssrc, receiver.payloadType))
        receiver.add(view, audioLevel);
      return;
    }
    // A section that was inactive is reactivated with another SSRC.
    if (receiver?.track !== track || receiver.ssrc !== view.ssrc) {
      receiver?.close();
      const { ssrc, payloadType } = view;
      const { onPacket } = this.#deps;
      const input = onPacket
        ? this.#receivePackets(track, codec, ssrc, onPacket)
        : track.kind === "audio"
          ? this.#receiveAudio(track)
          : this.#receiveVideo(track, codec, ssrc);
      receiver = { track, ssrc, payloadType, ...input };
      this.#receivers.set(index, receiver);
    }
    receiver.add(view, audioLevel);
  }

  #receivePackets(
    track: SubscribedTrack,
    codec: string,
    ssrc: number,
    onPacket: NonNullable<MediaConnectionDeps["onPacket"]>,
  ): Pick<Receiver, "add" | "close" | "requestKeyframe"> {
    const nack = track.kind === "video" ? new NackGenerator() : null;
    const timer = nack && setInterval(() => this.#requestLost(ssrc, nack.takeDue(performance.now())), NACK_EVERY_MS);
    return {
      add: (view, level) => {
        const { sequenceNumber, timestamp, marker } = view;
        if (nack && !nack.receive(sequenceNumber, performance.now())) return;
        const audioLevel = level < 0 ? undefined : level;
        onPacket(track, { codec, sequenceNumber, timestamp, marker, payload: payloadOf(view), audioLevel });
      },
      requestKeyframe: this.#keyframeRequests(ssrc),
      close: () => timer && clearInterval(timer),
    };
  }

  #requestLost(ssrc: number, sequenceNumbers: readonly number[]): void {
    if (sequenceNumbers.length === 0) return;
    const out = new Uint8Array(NACK_BYTES + 4 * sequenceNumbers.length);
    this.#peer?.sendRtcp(out, writeNack(out, 0, 1, ssrc, sequenceNumbers));
  }

  #receiveAudio(track: SubscribedTrack): Pick<Receiver, "add" | "close"> {
    const { channels = 1, onAudio } = this.#deps;
    const input = new AudioReceiver(channels, (pcm, timestamp) => onAudio(track, pcm, timestamp));
    const decrypt = this.#decryptor(track, "opus", () => {});
    const add = (view: RtpView) => {
      const { sequenceNumber, timestamp } = view;
      decrypt(payloadOf(view), true, (payload) => input.add(sequenceNumber, payload, timestamp));
    };
    return { add, close: () => input.close() };
  }

  #receiveVideo(
    track: SubscribedTrack,
    codec: string,
    ssrc: number,
  ): Pick<Receiver, "add" | "close" | "requestKeyframe"> {
    const requestKeyframe = this.#keyframeRequests(ssrc);
    const decrypt = this.#decryptor(track, codec, requestKeyframe);
    const input = new VideoReceiver(codec, {
      frame: (frame) => decrypt(frame.data, frame.keyframe, (data) => this.#deps.onVideo(track, { ...frame, data })),
      needKeyframe: requestKeyframe,
      lost: (sequenceNumbers) => this.#requestLost(ssrc, sequenceNumbers),
    });
    return {
      add: (view) => input.add(view.sequenceNumber, view.timestamp, view.marker, payloadOf(view)),
      requestKeyframe,
      close: () => input.close(),
    };
  }

  #decryptor({ identity, encrypted }: SubscribedTrack, codec: string, needKeyframe: () => void) {
    if (encrypted && this.#deps.cipher) return this.#deps.cipher.decryptor(identity, codec, needKeyframe);
    return (bytes: Uint8Array, _isKeyframe: boolean, deliver: (plain: Uint8Array) => void) => deliver(bytes);
  }

  #keyframeRequests(ssrc: number): () => void {
    let lastAt = Number.NEGATIVE_INFINITY;
    return () => {
      if (performance.now() - lastAt < PLI_EVERY_MS) return;
      lastAt = performance.now();
      const out = new Uint8Array(64);
      this.#peer?.sendRtcp(out, writePli(out, 0, 1, ssrc));
    };
  }
}

/** A data channel with the events of a browser's. */
function channelLike(channel: ReturnType<SctpClient["open"]>): DataChannelLike {
  return {
    binaryType: "arraybuffer",
    get readyState() {
      return channel.readyState;
    },
    send: (data) => channel.send(typeof data === "string" ? data : Buffer.from(data)),
    addEventListener(type: "open" | "close" | "message", listener: (event: { data: unknown }) => void) {
      if (type === "message") channel.onMessage.subscribe((data) => listener({ data }));
      else
        channel.stateChange.subscribe((state) => {
          if (state === (type === "open" ? "open" : "closed")) listener({ data: null });
        });
    },
  };
}

function receiving(kind: TrackKind): Section {
  const codecs = kind === "video" ? { codecs: RECEIVABLE } : {};
  const offered = { kind, direction: "recvonly" as const, feedback: "goog-remb" as const, ...codecs };
  return { offered, publishes: null, receives: null, ssrcs: [] };
}

/** Returns a copy, because the packet's buffer is reused. */
function payloadOf({ data, payloadOffset, payloadLength }: RtpView): Uint8Array {
  return data.slice(payloadOffset, payloadOffset + payloadLength);
}

const RETRANSMISSION_PACKETS = 1_024;

/** Recently sent packets, encrypted, for retransmission. */
class RetransmissionBuffer {
  readonly #packets = new Map<string, Uint8Array>();

  keep(ssrc: number, sequenceNumber: number, bytes: Uint8Array): void {
    this.#packets.set(`${ssrc}:${sequenceNumber}`, bytes);
    if (this.#packets.size <= RETRANSMISSION_PACKETS) return;
    const [oldest] = this.#packets.keys();
    if (oldest !== undefined) this.#packets.delete(oldest);
  }

  find(ssrc: number, lost: readonly number[]): Uint8Array[] {
    return lost.flatMap((sequenceNumber) => this.#packets.get(`${ssrc}:${sequenceNumber}`) ?? []);
  }
}
