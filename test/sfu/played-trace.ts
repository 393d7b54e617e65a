// A publisher's packets and reports with losses, repetitions and packets out of order, while viewers switch layers, pause, move
// and ask for what they miss: all of it follows from a seed.

import { seededRandom } from "../../src/kernel/net/impairment.ts";
import type { NativePath } from "../../src/sfu/fast-path/native-path.ts";
import { FlightRecorder } from "../../src/sfu/flight/flight-recorder.ts";
import type { PacketPath } from "../../src/sfu/forwarding/packet-path.ts";
import type { ParticipantHost, RoomTracks } from "../../src/sfu/room/host.ts";
import { Uplink } from "../../src/sfu/room/uplink.ts";
import { OutgoingSection } from "../../src/sfu/tracks/outgoing-section.ts";
import type { Publication } from "../../src/sfu/tracks/publication.ts";
import { DEFAULT_SUBSCRIPTION_SETTINGS, Subscription } from "../../src/sfu/tracks/subscription.ts";
import { MediaIntake } from "../../src/sfu/transport/incoming-media.ts";
import { UdpPort } from "../../src/sfu/transport/udp.ts";
import { SentPackets } from "../../src/sfu/wire/rtcp/twcc-feedback.ts";
import { isRtcp } from "../../src/sfu/wire/rtp/rtp.ts";
import type { Offer } from "../../src/sfu/wire/sdp/offer.ts";
import { SrtpSender } from "../../src/sfu/wire/srtp/srtp.ts";
import { EXTENSIONS, key, PICTURES, SOUND, TracedPublisher } from "./traced-publisher.ts";
import { WatchedSocket } from "./watched-socket.ts";

const VIEWERS = 4;
const STEPS = 400;

/** One publisher on a path of its own, in words and bytes that depend on the seed alone. */
export class Played {
  /** By port: the packets that were sent there, in order. */
  readonly sent = new Map<number, string[]>();
  readonly reports: string[] = [];
  readonly #random: () => number;
  readonly #picture: keyof typeof PICTURES;
  readonly #uplink: Uplink;
  readonly #flight = new FlightRecorder();
  readonly #udp: UdpPort;
  readonly #receive: (data: Buffer, nowMs: number) => void;
  readonly #intake: MediaIntake | null;
  #watched: WatchedSocket | null = null;
  readonly #publisher: TracedPublisher;
  readonly #viewers: { subscription: Subscription; section: OutgoingSection; sent: SentPackets; port: number }[] = [];
  /** Packets that were taken without a decision. */
  taken = 0;

  static async of(path: PacketPath, seed: number, picture: keyof typeof PICTURES): Promise<Played> {
    const sent = new Map<number, string[]>();
    const udp = await UdpPort.bind({
      ...{ hostname: "127.0.0.1", port: 0, onDatagram() {}, path },
      onFault: (error) => {
        throw error;
      },
      impairOut: (data, port) => {
        if (!sent.has(port)) sent.set(port, []);
        sent.get(port)?.push(Buffer.from(data).toString("hex"));
      },
    });
    return new Played(udp, sent, seed, picture);
  }

  /** The same, with native code at a socket that its packets really come by. */
  static async watched(path: NativePath, seed: number, picture: keyof typeof PICTURES): Promise<Played> {
    const played = await Played.of(path, seed, picture);
    played.#watched = await WatchedSocket.open(path.watch, played.#udp, played.#receive, (data, port) => {
      if (!played.sent.has(port)) played.sent.set(port, []);
      played.sent.get(port)?.push(Buffer.from(data).toString("hex"));
    });
    return played;
  }

  /** Packets that a watch has forwarded. */
  get forwarded(): number {
    return this.#watched?.forwarded ?? 0;
  }

  /** Reports that one has laid aside. */
  get laidAside(): number {
    return this.#watched?.laidAside ?? 0;
  }

  private constructor(udp: UdpPort, sent: Map<number, string[]>, seed: number, picture: keyof typeof PICTURES) {
    this.sent = sent;
    this.#udp = udp;
    this.#random = seededRandom(seed);
    this.#picture = picture;
    this.#publisher = new TracedPublisher(this.#random, picture);
    const connection = {
      isReady: true,
      liveness: { mediaAtMs: 0 },
      sendRtcp: (packet: Uint8Array) => void this.reports.push(Buffer.from(packet).toString("hex").slice(16)),
    };
    const owner = { self: { identity: "ann" }, connection, rttMs: 40, emit() {} };
    const room = {
      ...{ published() {}, unpublished() {}, isWanted: () => true, muteChanged() {}, isVoiceUncontested: () => true },
      observeAudioLevel: (_: Publication, level: number, nowMs: number) =>
        void this.reports.push(`heard ${level} at ${nowMs}`),
    };
    let ids = 0;
    const host = { udp, newId: () => `${++ids}`, expediteFeedback() {} };
    this.#uplink = new Uplink(
      host as unknown as ParticipantHost,
      room as unknown as RoomTracks,
      owner as unknown as ConstructorParameters<typeof Uplink>[2],
      this.#flight,
    );
    const section = { rejected: false, sends: false, receives: true, extensions: EXTENSIONS };
    this.#uplink.negotiated(
      {
        sections: [
          { mid: "0", sendRids: ["q", "f"], ssrcs: new Map() },
          { mid: "1", sendRids: [], ssrcs: new Map() },
        ],
      } as unknown as Offer,
      [
        { ...section, mid: "0", kind: "video", codecs: [PICTURES[picture]] },
        { ...section, mid: "1", kind: "audio", codecs: [SOUND] },
      ],
      [
        { mid: "0", clientTrackId: "v", kind: "video", source: "camera" },
        { mid: "1", clientTrackId: "a", kind: "audio", source: "microphone" },
      ],
    );
    const incoming = udp.path.createReceiver(key(0));
    const onRtcp = (data: Buffer, length: number, nowMs: number) => {
      this.#flight.reported(data, length, nowMs);
      this.#uplink.receiveRtcp(data, length, nowMs);
    };
    const onRtp = (data: Buffer, length: number, nowMs: number) => this.#uplink.receiveRtp(data, length, nowMs);
    const { take } = udp.path;
    const intake: MediaIntake | null =
      take && incoming.take
        ? new MediaIntake({
            ...{ take, incoming: incoming as Required<typeof incoming>, lives() {}, onRtp, onRtcp },
            usual: (usual, nowMs) => this.#watched?.media.usual(usual, nowMs),
            source: () => this.#watched?.source ?? null,
            sink: {
              lanes: this.#uplink.usual.lanes,
              seat: () => this.#uplink.usual.seat(),
              onRun: (run, taking, nowMs) => {
                this.taken += run.count;
                this.#uplink.usual.onRun(run, taking, nowMs);
              },
            },
          })
        : null;
    this.#intake = intake;
    this.#receive = (data, nowMs) => {
      if (isRtcp(data)) {
        udp.finishWaiting();
        const length = incoming.unprotectRtcp(data);
        if (length >= 0) onRtcp(data, length, nowMs);
      } else if (!intake) {
        const length = incoming.unprotectRtp(data);
        if (length >= 0) onRtp(data, length, nowMs);
      } else if (intake.add(data, nowMs)) udp.wait(intake);
    };
  }

  #chance(oneIn: number): boolean {
    return Math.floor(this.#random() * oneIn) === 0;
  }

  #watch(mid: string, nowMs: number): void {
    const publication = this.#uplink.publications().find((one) => one.mid === mid) as Publication;
    const codecs = mid === "0" ? [PICTURES[this.#picture]] : [SOUND];
    const port = 4_000 + this.#viewers.length;
    const word = () => Math.floor(this.#random() * 0x100000000);
    const answered = { ...{ mid, kind: publication.kind, rejected: false, sends: true, receives: false }, codecs };
    // One of them negotiated no transport-wide numbers.
    const extensions = { ...EXTENSIONS, ...(port % 4 === 3 && { transportSequence: 0 }) };
    const section = new OutgoingSection({ ...answered, extensions }, publication.kind, word);
    const sent = new SentPackets(1, this.#udp.path.finishAlike);
    const subscription = new Subscription(publication, section, DEFAULT_SUBSCRIPTION_SETTINGS, sent, {
      changed() {},
      mayRequestKeyframe: () => true,
    });
    const srtp = new SrtpSender(key(port), this.#udp.path.createCipher);
    subscription.start({ srtp, address: "127.0.0.1", port, deliver: undefined, seated: new Set() });
    this.#viewers.push({ subscription, section, sent, port });
    this.#choose(subscription, nowMs);
  }

  #choose(subscription: Subscription, nowMs: number): void {
    const { layers } = subscription.publication;
    const layer = this.#chance(5) ? null : layers[this.#chance(3) ? 0 : layers.length - 1];
    subscription.setLayer(layer ?? null, "requested", nowMs);
  }

  async #step(nowMs: number): Promise<void> {
    const arriving = this.#publisher.turn(nowMs);
    if (this.#watched && this.#intake) await this.#watched.deliver(arriving, this.#intake, nowMs);
    else for (const packet of arriving) this.#receive(Buffer.from(packet), nowMs);
    this.#publisher.restart();
    this.#udp.finishWaiting();
    this.#react(nowMs);
    this.#uplink.tick(nowMs);
  }

  #react(nowMs: number): void {
    const [track] = this.#uplink.publications();
    if (track && this.#chance(track.muted ? 4 : 60)) this.#uplink.setMuted(track.trackId, !track.muted);
    if (this.#viewers.length < VIEWERS * 2) this.#watch(this.#viewers.length % 3 === 2 ? "1" : "0", nowMs);
    for (const viewer of this.#viewers) {
      const { subscription, section, sent } = viewer;
      if (this.#chance(60)) this.#choose(subscription, nowMs);
      if (this.#chance(10)) {
        const newest = section.forwarder?.lastOutgoing ?? 0;
        const terms = { rttMs: 0, take: () => true };
        section.repair([newest & 0xffff, (newest - 3) & 0xffff], sent, terms, this.#udp, nowMs);
      }
      const { target } = section;
      if (!target || !this.#chance(80)) continue;
      for (const seat of [...target.transport.seated]) seat.leave();
      target.transport.port += 100;
    }
  }

  async play(): Promise<void> {
    let nowMs = 1_700_000_000_000.25;
    for (let step = 0; step < STEPS; step++) {
      nowMs += 7 + Math.floor(this.#random() * 40) + 0.125;
      await this.#step(nowMs);
      if (step % 20 === 0) await new Promise(setImmediate);
    }
    await new Promise(setImmediate);
    for (const { layers, trackId } of this.#uplink.publications())
      for (const { reception, audience, nack } of layers)
        this.reports.push(
          `${trackId} ${reception?.highest} ${reception?.jitterMs} ${reception?.cumulativeLost} ${reception?.bytes}`,
          `${audience.packets} ${audience.octets} ${audience.bytes} ${audience.highest} ${nack.missing} ${nack.recovered}`,
        );
    for (const { subscription, sent } of this.#viewers)
      this.reports.push(`${subscription.bytesOut} ${JSON.stringify(sent.history())}`);
    this.reports.push(JSON.stringify(this.#flight.dump([], [], nowMs)));
    this.#watched?.close();
    this.#udp.close();
  }
}
