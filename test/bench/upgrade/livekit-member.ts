/** A participant that speaks LiveKit's protocol on one connection: it sends audio and video, and receives those of the others. */
import { AddTrackRequest, SessionDescription, TrackSource, TrackType } from "@livekit/protocol";
import { RtcPeer } from "../../../src/rtc-client/peer.ts";
import { RtpSource } from "../../../src/rtc-client/rtp-source.ts";
import { type PeerSection, readAnswer } from "../../../src/rtc-client/sdp.ts";
import type { DtlsCertificate } from "../../../src/sfu/werift/werift-hooks.ts";
import { RawClient } from "../../gateways/livekit/harness/raw-client.ts";
import { ROOM, type Watched } from "./call-member.ts";

const PATH = "/rtc/v1";
/** Sections of an offer: its own audio and video come before those that it receives. */
const OWN_SECTIONS = 2;
/** A client counts as receiving after so many packets. */
const RECEIVED = 20;

export class LivekitMember {
  #client!: RawClient;
  #sid = "";
  #offers = 0;
  #peer!: RtcPeer;
  #sources: { audio: RtpSource; video: RtpSource } | null = null;
  #midToTrackId: Record<string, string> = {};
  #ticks = 0;
  #heardBefore = 0;

  constructor(
    readonly url: string,
    readonly token: string,
    private readonly options: { others: number; certificate: DtlsCertificate },
  ) {}

  async join(): Promise<void> {
    this.#client = await RawClient.open(this.url, this.token, "", PATH);
    this.#sid = (await this.#client.hears("join")).participant?.sid ?? "";
    const audio = await this.#announce("microphone", TrackType.AUDIO, TrackSource.MICROPHONE);
    const video = await this.#announce("camera", TrackType.VIDEO, TrackSource.CAMERA);
    this.#midToTrackId = { 0: audio, 1: video };
    const { others, certificate } = this.options;
    const received = (kind: "audio" | "video") =>
      Array.from({ length: others }, (): PeerSection => ({ kind, direction: "recvonly", feedback: "goog-remb" }));
    this.#peer = await RtcPeer.create({
      node: { negotiate: ({ sdp }) => this.#offer(sdp) },
      roomId: "",
      participantId: "",
      certificate,
      hostname: "0.0.0.0",
      sections: [
        { kind: "audio", direction: "sendonly", ssrc: 21 },
        { kind: "video", direction: "sendonly", ssrc: 22 },
        ...received("audio"),
        ...received("video"),
      ],
    });
    await this.#peer.connect(undefined, undefined);
    const numbers = { next: 0 };
    this.#sources = {
      audio: new RtpSource({ ssrc: 21, payloadType: 111, mid: "0", numbers, audioLevel: 30 }),
      video: new RtpSource({ ssrc: 22, payloadType: 96, mid: "1", numbers }),
    };
  }

  async #announce(cid: string, type: TrackType, source: TrackSource): Promise<string> {
    const value = new AddTrackRequest({ cid, type, source, name: cid, disableRed: true });
    this.#client.send({ case: "addTrack", value });
    return (await this.#client.hears("trackPublished", (published) => published.cid === cid)).track?.sid ?? "";
  }

  async #offer(sdp: string) {
    const id = ++this.#offers;
    const value = new SessionDescription({ type: "offer", sdp, id, midToTrackId: this.#midToTrackId });
    this.#client.send({ case: "offer", value });
    const answer = await this.#client.hears("answer", (one) => one.id === id);
    return { sdp: answer.sdp, tracks: [] };
  }

  /** Offers again when the server asks for it because there are tracks, and resolves when this member receives media. */
  async watch(): Promise<void> {
    for (let offered = 0; this.media < RECEIVED; await Bun.sleep(20)) {
      const asked = this.#client.heard.filter((message) => message.case === "mediaSectionsRequirement").length;
      if (asked > offered) await this.#peer.negotiate(undefined, undefined);
      offered = asked;
    }
  }

  tick(): void {
    if (!this.#sources) return;
    this.#sources.audio.sendAudio(this.#peer);
    if (this.#ticks % ROOM.everyTicks === 0) this.#peer.sendRemb(ROOM.bps);
    if (this.#ticks++ % 2 === 0) this.#sources.video.sendFrame(this.#peer, true);
  }

  get port(): number {
    return this.#peer.port;
  }

  get media(): number {
    return this.#peer.mediaIn;
  }

  watched(others: readonly LivekitMember[]): Watched[] {
    const sections = readAnswer(this.#peer.answerSdp).slice(OWN_SECTIONS + this.options.others);
    const videos = sections.flatMap(({ ssrcs: [ssrc] }) => (ssrc === undefined ? [] : [ssrc]));
    // Which of the others sends which does not matter: all send at the same time.
    return videos.map((ssrc, i) => ({ port: this.port, ssrc, sourcePort: others[i]?.port ?? 0 }));
  }

  /** Says what a new socket is told: "reconnect" after a resume, which is all that the other participants notice. */
  async resume(): Promise<string> {
    for (;;) {
      try {
        this.#client = await RawClient.open(this.url, this.token, `&reconnect=1&sid=${this.#sid}`, PATH);
        const [first] = this.#client.heard;
        this.#heardBefore = 1;
        if (first?.case === "reconnect") return "resumed";
        if (first !== undefined) return String(first.case);
      } catch {
        // The socket could not be opened.
      }
      await Bun.sleep(50);
    }
  }

  /** What the server has told since the socket was opened. */
  get told(): string[] {
    return this.#client.heard.slice(this.#heardBefore).map((message) => String(message.case));
  }

  async leave(): Promise<void> {
    this.#sources = null;
    this.#client.send({ case: "leave", value: {} as never });
    this.#peer.close();
    await this.#client.isClosed();
  }
}
