/** Rooms in which every participant sends audio and a video in three layers, and receives those of all others. */
import type { JoinAck, PublishedSection, Push, SubscribedSection } from "../../../src/protocol/signaling.ts";
import { type PeerOptions, RtcPeer } from "../../../src/rtc-client/peer.ts";
import { RtpSource } from "../../../src/rtc-client/rtp-source.ts";
import { carriesMedia, type PeerSection, readAnswer } from "../../../src/rtc-client/sdp.ts";
import { SignalingClient } from "../../../src/rtc-client/signaling-client.ts";
import type { DtlsCertificate } from "../../../src/sfu/werift/werift-hooks.ts";

const AUDIO_MS = 20;
const OPUS = 111;
/** "There is room" for all videos, which the server would otherwise add one by one. */
export const ROOM = { bps: 5_000_000, everyTicks: 25 };
const RIDS = ["q", "h", "f"];
/** Packets of a frame by layer. */
const PACKETS = [1, 1, 2];
const PUBLISHED: PublishedSection[] = [
  { mid: "0", clientTrackId: "microphone", kind: "audio", source: "microphone" },
  { mid: "1", clientTrackId: "camera", kind: "video", source: "camera" },
];

type Arrival = { at: number; longestMs: number };

/** A video that arrives at a port of a viewer, and the port that it is sent from. A port of 0 is none of UDP. */
export type Watched = { port: number; ssrc: number; sourcePort: number };

type MemberOptions = {
  others: number;
  certificate: DtlsCertificate;
  /** Opens the socket of a client that cannot use UDP. */
  openSocket?: (joined: Promise<JoinAck>) => PeerOptions["openSocket"];
};

export class CallMember {
  client: SignalingClient;
  readonly #joined = Promise.withResolvers<JoinAck>();
  readonly #opening: Promise<RtcPeer>;
  #peer: RtcPeer | null = null;
  readonly #arrivals = new Map<number, Arrival>();
  #sources: { audio: RtpSource; video: RtpSource[] } | null = null;
  #ticks = 0;
  #trackIds: { audio: string; video: string } | null = null;
  #watched: readonly CallMember[] = [];
  /** What the server has told since `forgetPushes`. */
  pushes: Push["type"][] = [];

  constructor(
    readonly url: string,
    readonly token: string,
    options: MemberOptions,
  ) {
    const { others, certificate, openSocket } = options;
    this.client = this.#dial();
    const received = Array.from({ length: others }, (): PeerSection[] => [
      { kind: "audio", direction: "recvonly" },
      { kind: "video", direction: "recvonly", feedback: "goog-remb" },
    ]);
    const sections: PeerSection[] = [
      { kind: "audio", direction: "sendonly" },
      { kind: "video", direction: "sendonly", rids: RIDS },
      ...received.flat(),
    ];
    this.#opening = RtcPeer.create({
      node: { negotiate: (request) => this.client.negotiate(request) },
      roomId: "",
      participantId: "",
      sections,
      certificate,
      hostname: "0.0.0.0",
      openSocket: openSocket?.(this.#joined.promise),
      onRtp: (view) => {
        if (carriesMedia(view.data) && view.payloadType !== OPUS) this.#arrived(view.ssrc);
      },
    });
  }

  #dial(connectionId?: string): SignalingClient {
    const { url, token } = this;
    return new SignalingClient({ url, token, onPush: ({ type }) => void this.pushes.push(type) }, connectionId);
  }

  /** Joins and sends. */
  async publish(): Promise<void> {
    this.#joined.resolve(await this.client.join());
    this.#peer = await this.#opening;
    await this.#peer.connect(PUBLISHED, []);
    const tracks = await this.#peer.negotiate(PUBLISHED, []);
    const idOf = (name: string) => tracks.find(({ clientTrackId }) => clientTrackId === name)?.trackId ?? "";
    this.#trackIds = { audio: idOf("microphone"), video: idOf("camera") };
    const numbers = { next: 0 };
    this.#sources = {
      audio: new RtpSource({ ssrc: 10, payloadType: 111, mid: "0", numbers, audioLevel: 30 }),
      video: RIDS.map((rid, i) => new RtpSource({ ssrc: 11 + i, payloadType: 96, mid: "1", rid, numbers })),
    };
  }

  /** Receives what the others send. */
  async watch(others: readonly CallMember[]): Promise<void> {
    this.#watched = others;
    const subscribe: SubscribedSection[] = others.flatMap((other, i) => {
      const { audio = "", video = "" } = other.#trackIds ?? {};
      return [
        { mid: String(2 + 2 * i), trackId: audio },
        { mid: String(3 + 2 * i), trackId: video },
      ];
    });
    await this.#peer?.negotiate(PUBLISHED, subscribe);
  }

  tick(): void {
    if (!this.#sources || !this.#peer) return;
    const { audio, video } = this.#sources;
    audio.sendAudio(this.#peer);
    if (this.#ticks % ROOM.everyTicks === 0) this.#peer.sendRemb(ROOM.bps);
    if (this.#ticks++ % 2 > 0) return;
    for (const [i, source] of video.entries()) source.sendFrame(this.#peer, true, PACKETS[i]);
  }

  get port(): number {
    return this.#peer?.port ?? 0;
  }

  /** The videos that this member watches. */
  watched(): Watched[] {
    const sections = readAnswer(this.#peer?.answerSdp ?? "");
    return this.#watched.map((other, i) => {
      const [ssrc = 0] = sections[3 + 2 * i]?.ssrcs ?? [];
      return { port: this.port, ssrc, sourcePort: other.port };
    });
  }

  #arrived(ssrc: number): void {
    const at = performance.now();
    const known = this.#arrivals.get(ssrc);
    if (!known) this.#arrivals.set(ssrc, { at, longestMs: 0 });
    else {
      known.longestMs = Math.max(known.longestMs, at - known.at);
      known.at = at;
    }
  }

  /** The videos that arrive, each with its longest gap since this was called last. */
  takeGaps(): number[] {
    const now = performance.now();
    const gaps = [...this.#arrivals.values()].map(({ at, longestMs }) => Math.max(longestMs, now - at));
    for (const arrival of this.#arrivals.values()) arrival.longestMs = 0;
    return gaps;
  }

  get videos(): number {
    return this.#arrivals.size;
  }

  async resume(): Promise<string> {
    const { connectionId, resumption } = this.client;
    for (;;) {
      this.client = this.#dial(connectionId);
      try {
        return (await this.client.join(resumption)).mode;
      } catch {
        await Bun.sleep(50);
      }
    }
  }

  async leave(): Promise<void> {
    this.#sources = null;
    await this.client.leave();
    this.#peer?.close();
    this.client.close();
  }
}

/**
 * Sends for all members at the pace of a microphone, from one timer. By as much as that is late, which `takeDelay` returns since
 * its last call, a gap may be longer through no fault of the server.
 */
export function sendFor(members: () => readonly CallMember[]) {
  let [sentAt, longestMs] = [performance.now(), 0];
  const timer = setInterval(() => {
    const now = performance.now();
    longestMs = Math.max(longestMs, now - sentAt - AUDIO_MS);
    sentAt = now;
    for (const member of members()) member.tick();
  }, AUDIO_MS);
  return {
    takeDelay() {
      const taken = longestMs;
      longestMs = 0;
      return taken;
    },
    stop: () => clearInterval(timer),
  };
}
