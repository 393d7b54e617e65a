// A publisher's packets and reports with losses, repetitions and packets out of order, while viewers switch layers, pause, change
// their address and request lost packets again. All of it follows from a seed.

import { seededRandom } from "../../src/kernel/net/impairment.ts";
import type { FastPath } from "../../src/sfu/fast-path/fast-path.ts";
import type { NativeReceiveLoop } from "../../src/sfu/fast-path/native-receive-loop.ts";
import type { ReceiveLoop } from "../../src/sfu/fast-path/receive-loop.ts";
import { PACKET_BUFFER_BYTES, type SendBatch } from "../../src/sfu/fast-path/send-batch.ts";
import { FlightRecorder } from "../../src/sfu/flight/flight-recorder.ts";
import type { ParticipantHost, RoomTracks } from "../../src/sfu/room/host.ts";
import { Uplink } from "../../src/sfu/room/uplink.ts";
import { OutgoingSection } from "../../src/sfu/tracks/outgoing-section.ts";
import type { Publication } from "../../src/sfu/tracks/publication.ts";
import { DEFAULT_SUBSCRIPTION_SETTINGS, Subscription } from "../../src/sfu/tracks/subscription.ts";
import { ControlBudget } from "../../src/sfu/transport/control-budget.ts";
import type { Path } from "../../src/sfu/transport/ice/ice-session.ts";
import { IncomingMedia } from "../../src/sfu/transport/incoming-media.ts";
import { UdpPort } from "../../src/sfu/transport/udp.ts";
import { SentPackets } from "../../src/sfu/wire/rtcp/twcc-feedback.ts";
import type { Offer } from "../../src/sfu/wire/sdp/offer.ts";
import { SrtpSender } from "../../src/sfu/wire/srtp/srtp.ts";
import { AUDIO, EXTENSIONS, key, TracedPublisher, VIDEO } from "./traced-publisher.ts";

const VIEWERS = 4;
const STEPS = 400;
const ADDRESS = "127.0.0.1";
/** So few packets that all of their copies fit into one batch, where they can be read after the native receive loop has sent them. */
const AT_ONCE = 12;

/** A publisher on a path of its own: every packet and byte depends on the seed alone. */
export class PlayedTrace {
  /** The packets sent to each port, in order. */
  readonly sent = new Map<number, string[]>();
  readonly reports: string[] = [];
  readonly #random: () => number;
  readonly #codec: keyof typeof VIDEO;
  readonly #uplink: Uplink;
  readonly #flight = new FlightRecorder();
  readonly #udp: UdpPort;
  readonly #incoming: IncomingMedia;
  readonly #sender: Bun.udp.Socket<"buffer">;
  /** The path by which the packets of the publisher come. */
  readonly #path: Path;
  readonly #publisher: TracedPublisher;
  readonly #viewers: { subscription: Subscription; section: OutgoingSection; sent: SentPackets; port: number }[] = [];
  #nowMs = 0;
  /** Packets that were sent to a fan-out group after TypeScript had received them. */
  sentToGroups = 0;
  /** Packets that the native receive loop has forwarded. */
  forwardedNatively = 0;

  /** With `usesReceiveLoop`, the packets of the publisher really come by a socket, in a time that stands still meanwhile. */
  static async open(
    path: FastPath,
    seed: number,
    codec: keyof typeof VIDEO,
    usesReceiveLoop = false,
  ): Promise<PlayedTrace> {
    let played: PlayedTrace | null = null;
    const { receiveLoop } = path;
    const udp = await UdpPort.bind({
      hostname: ADDRESS,
      port: 0,
      onDatagram: (data) => played?.receive(data),
      onFault: (error) => {
        throw error;
      },
      path: {
        ...path,
        send: (_socket, batch, count) => {
          played?.recordSent(batch, count);
          return true;
        },
        fanOutToGroup: (packet, group, nowMs, batch) => {
          if (played) played.sentToGroups += 1;
          path.fanOutToGroup(packet, group, nowMs, batch);
        },
      },
      ...(usesReceiveLoop && {
        receiveLoop: {
          now: () => played?.now ?? 0,
          ticker: { dueInMs: () => 1, packetReceived() {} },
          schedule() {},
        },
      }),
    });
    if (usesReceiveLoop && receiveLoop) {
      receiveLoop.isStill = true;
      const wait = receiveLoop.wait.bind(receiveLoop);
      receiveLoop.wait = (terms) => {
        wait(terms);
        played?.forwarded(receiveLoop, terms.batch);
      };
    }
    const sender = await Bun.udpSocket({ hostname: ADDRESS, port: 0, binaryType: "buffer" });
    played = new PlayedTrace(udp, sender, seed, codec);
    return played;
  }

  get now(): number {
    return this.#nowMs;
  }

  /** The first `count` packets of the batch were sent. */
  recordSent(batch: SendBatch, count: number): void {
    for (let i = 0; i < count; i++) {
      const length = batch.length(i);
      if (length === 0) continue;
      const port = batch.port(i);
      if (!this.sent.has(port)) this.sent.set(port, []);
      const at = i * PACKET_BUFFER_BYTES;
      this.sent.get(port)?.push(Buffer.from(batch.arena.subarray(at, at + length)).toString("hex"));
    }
  }

  forwarded(native: NativeReceiveLoop, batch: SendBatch): void {
    this.forwardedNatively += native.received - native.setAside;
    let copies = 0;
    for (let left = native.packetsOut; left > 0; copies++) if (batch.length(copies) > 0) left--;
    this.recordSent(batch, copies);
  }

  private constructor(udp: UdpPort, sender: Bun.udp.Socket<"buffer">, seed: number, codec: keyof typeof VIDEO) {
    this.#udp = udp;
    this.#sender = sender;
    this.#path = { port: sender.port, address: ADDRESS, tcp: null } as Path;
    this.#random = seededRandom(seed);
    this.#codec = codec;
    this.#publisher = new TracedPublisher(this.#random, codec);
    const connection = {
      isReady: true,
      liveness: { mediaAtMs: 0 },
      sendRtcp: (packet: Uint8Array) => void this.reports.push(Buffer.from(packet).toString("hex").slice(16)),
    };
    const owner = { self: { identity: "ann" }, connection, rttMs: 40, emit() {} };
    const room = {
      published() {},
      unpublished() {},
      announced() {},
      isWanted: () => true,
      muteChanged() {},
      isVoiceUncontested: () => true,
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
        { ...section, mid: "0", kind: "video", codecs: [VIDEO[codec]] },
        { ...section, mid: "1", kind: "audio", codecs: [AUDIO] },
      ],
      [
        { mid: "0", clientTrackId: "v", kind: "video", source: "camera" },
        { mid: "1", clientTrackId: "a", kind: "audio", source: "microphone" },
      ],
    );
    this.#incoming = new IncomingMedia(udp.path.createReceiver(key(0)), udp, {
      events: {
        onRtp: (data, length, nowMs) => this.#uplink.receiveRtp(data, length, nowMs),
        onRtcp: (data, length, nowMs) => {
          this.#flight.reported(data, length, nowMs);
          this.#uplink.receiveRtcp(data, length, nowMs);
        },
        streams: this.#uplink.fastStreams,
      },
      onAuthentic() {},
      isDirect: () => true,
      countBytes() {},
      control: new ControlBudget(() => this.#nowMs),
    });
  }

  receive(data: Buffer): void {
    this.#incoming.receive(data, this.#nowMs, this.#path);
  }

  /** Sends the packets to the socket, where the native receive loop forwards what it can. */
  async #deliver(packets: readonly Uint8Array[], loop: ReceiveLoop): Promise<void> {
    for (let at = 0; at < packets.length; at += AT_ONCE) {
      const some = packets.slice(at, at + AT_ONCE);
      const expected = this.#udp.counters.packetsIn + some.length;
      for (const packet of some) this.#sender.send(packet, this.#udp.port, ADDRESS);
      loop.mediaReceived(this.#incoming, this.#nowMs);
      loop.run();
      // Without a stream to forward, the event loop receives them.
      while (this.#udp.counters.packetsIn < expected) await new Promise(setImmediate);
    }
    await new Promise(setImmediate);
  }

  #chance(oneIn: number): boolean {
    return Math.floor(this.#random() * oneIn) === 0;
  }

  #subscribe(mid: string, nowMs: number): void {
    const publication = this.#uplink.publications().find((one) => one.mid === mid) as Publication;
    const codecs = mid === "0" ? [VIDEO[this.#codec]] : [AUDIO];
    const port = 4_000 + this.#viewers.length;
    const word = () => Math.floor(this.#random() * 0x100000000);
    const answered = { mid, kind: publication.kind, rejected: false, sends: true, receives: false, codecs };
    // One of them negotiated no transport-wide numbers.
    const extensions = { ...EXTENSIONS, ...(port % 4 === 3 && { transportSequence: 0 }) };
    const section = new OutgoingSection({ ...answered, extensions }, publication.kind, word);
    const sent = new SentPackets(1);
    const subscription = new Subscription(publication, section, DEFAULT_SUBSCRIPTION_SETTINGS, sent, {
      changed() {},
      mayRequestKeyframe: () => true,
      awaitedSource() {},
    });
    const srtp = new SrtpSender(key(port), this.#udp.path.createCipher);
    subscription.start({ srtp, address: "127.0.0.1", port, deliver: undefined, slots: new Set() });
    this.#viewers.push({ subscription, section, sent, port });
    this.#choose(subscription, nowMs);
  }

  #choose(subscription: Subscription, nowMs: number): void {
    const { layers } = subscription.publication;
    const layer = this.#chance(5) ? null : layers[this.#chance(3) ? 0 : layers.length - 1];
    subscription.setLayer(layer ?? null, "requested", nowMs);
  }

  async #step(nowMs: number): Promise<void> {
    this.#nowMs = nowMs;
    const { receiveLoop } = this.#udp;
    const arriving = this.#publisher.nextPackets(nowMs);
    if (receiveLoop) await this.#deliver(arriving, receiveLoop);
    else for (const packet of arriving) this.receive(Buffer.from(packet));
    this.#publisher.restart();
    this.#react(nowMs);
    this.#uplink.tick(nowMs);
  }

  #react(nowMs: number): void {
    const [track] = this.#uplink.publications();
    if (track && this.#chance(track.muted ? 4 : 60)) this.#uplink.setMuted(track.trackId, !track.muted);
    if (this.#viewers.length < VIEWERS * 2) this.#subscribe(this.#viewers.length % 3 === 2 ? "1" : "0", nowMs);
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
      for (const slot of [...target.transport.slots]) slot.leave();
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
      for (const { reception, group, nack } of layers)
        this.reports.push(
          `${trackId} ${reception?.highest} ${reception?.jitterMs} ${reception?.cumulativeLost} ${reception?.bytes}`,
          `${group.packets} ${group.octets} ${group.bytes} ${group.highest} ${nack.missing} ${nack.recovered}`,
        );
    for (const { subscription, sent } of this.#viewers)
      this.reports.push(`${subscription.bytesOut} ${JSON.stringify(sent.history(nowMs))}`);
    this.reports.push(JSON.stringify(this.#flight.dump([], [], nowMs)));
    this.#sender.close();
    this.#udp.close();
  }
}
