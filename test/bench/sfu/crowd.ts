/** One publisher and its viewers on one server: the same peers and the same packets for every server. */

import type { SubscribedSection } from "../../../src/protocol/signaling.ts";
import { RtcPeer } from "../../../src/rtc-client/peer.ts";
import { RtpSource } from "../../../src/rtc-client/rtp-source.ts";
import { carriesMedia } from "../../../src/rtc-client/sdp.ts";
import { createCertificate, type DtlsCertificate } from "../../../src/sfu/werift/werift-hooks.ts";
import { LOAD_ADDRESS, SWALLOWED_ADDRESS } from "../harness/own-network.ts";
import { cpuNanos } from "../harness/processes.ts";
import { percentile } from "../harness/report.ts";
import { type Contestant, withCandidate } from "./contestant.ts";

/** The packets of a video. */
export type VideoShape = { packetBytes: number; perSecond: number; perFrame: number };
export const VIDEO: VideoShape = { packetBytes: 1_200, perSecond: 260, perFrame: 10 };
export const AUDIO = { packetBytes: 160, perSecond: 50 };
/** Video and audio together, for one viewer. */
export const PACKETS_PER_SECOND = VIDEO.perSecond + AUDIO.perSecond;
const HEADER_BYTES = 40;
/** The offset of the sending time in a payload, after all bytes that a server reads. */
const STAMP_AT = 100;
/** In frames. */
const KEYFRAME_EVERY = 52;
/** "There is room": no server is to hold anything back. */
const ROOM_BPS = 500_000_000;
/** Packets on their way at once when a server is driven as fast as it goes. */
const SATURATING_WINDOW = 8;
const STALLED_AFTER_MS = 50;
const JOINING_AT_ONCE = 8;
const SETTLE_MS = 150;
const MAX_SETTLE_TRIES = 20;

export type Feedback = "goog-remb" | "transport-cc";
const FEEDBACK_EVERY_MS = { "goog-remb": 500, "transport-cc": 100 };

export type Figures = {
  /** CPU microseconds of the server for each packet of audio or video that arrived. */
  cpuMicros: number;
  lossPercent: number;
  /** For each hundred packets, the other packets that arrived: retransmissions and probes. */
  besidesPercent: number;
  /** From the publisher's send to the viewer's receive, in milliseconds. */
  p50: number;
  p99: number;
};

export class Crowd {
  readonly contestant: Contestant;
  readonly #certificate: DtlsCertificate;
  readonly #feedback: Feedback;
  readonly #shape: VideoShape;
  readonly #together: number;
  readonly #viewers: RtcPeer[] = [];
  readonly #unseen: RtcPeer[] = [];
  #joined = 0;
  readonly #delays: number[] = [];
  readonly #numbers = { next: 0 };
  readonly #audio = new RtpSource({ ssrc: 6, payloadType: 111, mid: "0", audioLevel: 30, numbers: this.#numbers });
  readonly #video = new RtpSource({ ssrc: 7, payloadType: 96, mid: "1", numbers: this.#numbers });
  #publisher: RtcPeer | null = null;
  #published: SubscribedSection[] = [];
  #keyframeWanted = true;
  #onArrival: (() => void) | null = null;

  /** With `bursts` all packets of a frame are sent at once, as Chromium does, instead of evenly. */
  static async gather(contestant: Contestant, feedback: Feedback, bursts = false, shape = VIDEO): Promise<Crowd> {
    const crowd = new Crowd(contestant, await createCertificate(), feedback, bursts ? shape.perFrame : 1, shape);
    await crowd.#publish();
    return crowd;
  }

  private constructor(
    contestant: Contestant,
    certificate: DtlsCertificate,
    feedback: Feedback,
    together: number,
    shape: VideoShape,
  ) {
    this.#together = together;
    this.#shape = shape;
    this.contestant = contestant;
    this.#certificate = certificate;
    this.#feedback = feedback;
  }

  async #publish(): Promise<void> {
    this.#publisher = await this.#peer("publisher", "sendonly", "transport-cc");
    await this.#publisher.connect(
      [
        { mid: "0", clientTrackId: "a", kind: "audio", source: "microphone" },
        { mid: "1", clientTrackId: "v", kind: "video", source: "camera" },
      ],
      [],
    );
    this.#send("audio");
    this.#video.sendFrame(this.#publisher, true);
    this.#published = await this.contestant.published();
  }

  /** Adds viewers until there are `count`. */
  async grow(count: number): Promise<void> {
    await inGroups(count - this.#viewers.length, async () => {
      // One of them opens what it gets and takes the time; the others only count, unless each packet is to be reported.
      const onRtp = this.#joined === 0 ? this.#arrived : this.#feedback === "transport-cc" ? () => {} : undefined;
      this.#viewers.push(await this.#watch(LOAD_ADDRESS, onRtp));
    });
  }

  /** Viewers whose packets the network is going to lose: work for the server, and next to none for this process. */
  async growUnseen(count: number): Promise<void> {
    await inGroups(
      count - this.#unseen.length,
      async () => void this.#unseen.push(await this.#watch(SWALLOWED_ADDRESS, undefined, "goog-remb")),
    );
  }

  async #watch(hostname: string, onRtp: RtcPeer["options"]["onRtp"], feedback = this.#feedback): Promise<RtcPeer> {
    const peer = await this.#peer(`viewer-${this.#joined++}`, "recvonly", feedback, onRtp, hostname);
    await peer.connect([], this.#published);
    return peer;
  }

  async #peer(
    participantId: string,
    direction: "sendonly" | "recvonly",
    feedback: Feedback,
    onRtp?: RtcPeer["options"]["onRtp"],
    hostname = LOAD_ADDRESS,
  ) {
    await this.contestant.admit(participantId);
    const sends = direction === "sendonly";
    const peer: RtcPeer = await RtcPeer.create({
      node: {
        negotiate: (offer) =>
          this.contestant.negotiate({ ...offer, sdp: withCandidate(offer.sdp, hostname, peer.port) }),
      },
      roomId: "",
      participantId,
      certificate: this.#certificate,
      hostname,
      sections: [
        { kind: "audio", direction, ...(sends ? { ssrc: this.#audio.options.ssrc } : {}) },
        { kind: "video", direction, feedback, ...(sends ? { ssrc: this.#video.options.ssrc } : {}) },
      ],
      ...(onRtp ? { onRtp } : {}),
      ...(this.contestant.extensionIds && { extensionIds: this.contestant.extensionIds }),
      onRtcp: ({ type }) => {
        if (sends && (type === "pli" || type === "fir")) this.#keyframeWanted = true;
      },
    });
    return peer;
  }

  readonly #arrived: NonNullable<RtcPeer["options"]["onRtp"]> = ({ data, payloadOffset, payloadLength }) => {
    if (payloadLength < STAMP_AT + 8 || !carriesMedia(data)) return;
    const sentAt = new DataView(data.buffer, data.byteOffset + payloadOffset + STAMP_AT, 8).getFloat64(0);
    if (sentAt > 0) this.#delays.push(performance.now() - sentAt);
    this.#onArrival?.();
  };

  #tell(time: number): void {
    for (const viewer of this.#viewers) {
      if (this.#feedback === "goog-remb") viewer.sendRemb(ROOM_BPS);
      else viewer.sendTransportFeedback();
    }
    // Viewers that receive no packets cannot report on them.
    if ((time * FEEDBACK_EVERY_MS[this.#feedback]) % FEEDBACK_EVERY_MS["goog-remb"] === 0)
      for (const viewer of this.#unseen) viewer.sendRemb(ROOM_BPS);
  }

  /** Payload and headers that the server has to send in a second, to all viewers. */
  get bytesPerSecond(): number {
    const { packetBytes, perSecond } = this.#shape;
    const each = packetBytes * perSecond + AUDIO.packetBytes * AUDIO.perSecond;
    return each * (this.#viewers.length + this.#unseen.length);
  }

  /** Streams for a while to settle, then for as long as is measured. */
  async measure(warmUpMs: number, durationMs: number): Promise<Figures> {
    await this.#stream(warmUpMs);
    const { pid } = this.contestant;
    const before = { media: this.#received(), all: this.#receivedOfAll() };
    this.#delays.length = 0;
    const cpu = cpuNanos(pid);
    const sent = await this.#stream(durationMs);
    const received = (await this.#settled()) - before.media;
    const share = this.#viewers.length / (this.#viewers.length + this.#unseen.length);
    return {
      cpuMicros: ((cpuNanos(pid) - cpu) / 1_000 / received) * share,
      lossPercent: Math.max(0, (1 - received / (sent * this.#viewers.length)) * 100),
      besidesPercent: ((this.#receivedOfAll() - before.all) / received - 1) * 100,
      p50: percentile(this.#delays, 0.5),
      p99: percentile(this.#delays, 0.99),
    };
  }

  /** Sends as much as the server can take: every packet that arrives lets the next one be sent. Returns packets a second. */
  async saturate(durationMs: number): Promise<number> {
    const [watch] = this.#viewers;
    if (!watch) return 0;
    let number = 0;
    const send = () => this.#send("video", number++);
    this.#onArrival = send;
    const started = performance.now();
    const before = watch.packetsIn;
    for (
      let seen = watch.packetsIn, told = 0;
      performance.now() - started < durationMs;
      await Bun.sleep(STALLED_AFTER_MS)
    ) {
      if (seen === watch.packetsIn) for (let i = 0; i < SATURATING_WINDOW; i++) send();
      seen = watch.packetsIn;
      if (told++ % 10 === 0) this.#tell(0);
    }
    this.#onArrival = null;
    const perViewer = ((watch.packetsIn - before) * 1_000) / (performance.now() - started);
    return perViewer * (this.#viewers.length + this.#unseen.length);
  }

  #received(): number {
    return this.#viewers.reduce((total, viewer) => total + viewer.mediaIn, 0);
  }

  #receivedOfAll(): number {
    return this.#viewers.reduce((total, viewer) => total + viewer.packetsIn, 0);
  }

  /** Packets received when no more come: an overloaded server has some left. */
  async #settled(): Promise<number> {
    for (let received = -1, tries = 0; ; tries++) {
      if (received === this.#received() || tries === MAX_SETTLE_TRIES) return received;
      received = this.#received();
      await Bun.sleep(SETTLE_MS);
    }
  }

  /** Returns how many packets were sent. */
  async #stream(durationMs: number): Promise<number> {
    const started = performance.now();
    const sent = { video: 0, audio: 0 };
    for (let told = 0; ; ) {
      const elapsedMs = performance.now() - started;
      if (elapsedMs >= durationMs) return sent.video + sent.audio;
      for (; told <= elapsedMs / FEEDBACK_EVERY_MS[this.#feedback]; told++) this.#tell(told);
      const due = Math.ceil((elapsedMs * this.#shape.perSecond) / 1_000 / this.#together) * this.#together;
      for (; sent.video < due; sent.video++) this.#send("video", sent.video);
      for (; sent.audio < (elapsedMs * AUDIO.perSecond) / 1_000; sent.audio++) this.#send("audio");
      await Bun.sleep(2);
    }
  }

  #send(kind: "video" | "audio", number = 0): void {
    const [source, { packetBytes }] = kind === "video" ? [this.#video, this.#shape] : [this.#audio, AUDIO];
    const payload = new Uint8Array(packetBytes - HEADER_BYTES);
    let last = false;
    if (kind === "video") {
      const { perFrame, perSecond } = this.#shape;
      const inFrame = number % perFrame;
      last = inFrame === perFrame - 1;
      if (inFrame === 0) {
        source.timestamp = (source.timestamp + Math.round((90_000 * perFrame) / perSecond)) >>> 0;
        if (number % (KEYFRAME_EVERY * perFrame) === 0) this.#keyframeWanted = true;
      }
      const key = inFrame === 0 && this.#keyframeWanted ? 0x10 : 0x11;
      if (key === 0x10) this.#keyframeWanted = false;
      payload.set([
        ...[inFrame === 0 ? 0x90 : 0x80, 0x80, 0x80, 0x01],
        ...[key, 0, 0, 0x9d, 0x01, 0x2a, 0x80, 0x02, 0x68, 0x01],
      ]);
    } else source.timestamp = (source.timestamp + 960) >>> 0;
    new DataView(payload.buffer, STAMP_AT, 8).setFloat64(0, performance.now());
    if (this.#publisher) source.send(this.#publisher, payload, last);
  }

  async disperse(): Promise<void> {
    for (const peer of [...this.#viewers, ...this.#unseen]) peer.close();
    this.#publisher?.close();
    await this.contestant.stop();
  }
}

async function inGroups(count: number, join: () => Promise<void>): Promise<void> {
  for (let left = count; left > 0; left -= JOINING_AT_ONCE)
    await Promise.all(Array.from({ length: Math.min(JOINING_AT_ONCE, left) }, join));
}
