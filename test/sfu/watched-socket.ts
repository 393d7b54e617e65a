/** A socket at which native code watches for the packets of one publisher, in a time that stands still meanwhile. */
import { tuneUdpSocket } from "../../src/kernel/net/socket-options.ts";
import type { NativeWatch } from "../../src/sfu/fast-path/native-watch.ts";
import { SEND_BATCH_PACKETS, SEND_SLOT_BYTES, SendBatch } from "../../src/sfu/forwarding/send-batch.ts";
import type { MediaIntake } from "../../src/sfu/transport/incoming-media.ts";
import { MediaWatch } from "../../src/sfu/transport/media-watch.ts";
import type { UdpPort } from "../../src/sfu/transport/udp.ts";
import { addressWords } from "../../src/sfu/wire/rtp/address.ts";

const ADDRESS = "127.0.0.1";
/** So few that all their copies fit one batch, and can be read there. */
const AT_ONCE = 12;

type Received = (data: Buffer, nowMs: number) => void;

export class WatchedSocket {
  readonly media: MediaWatch;
  readonly source: { port: number; address: Uint32Array };
  /** Packets that were forwarded by a watch. */
  forwarded = 0;
  /** Reports that one has laid aside. */
  laidAside = 0;
  readonly #port: number;
  readonly #sender: Bun.udp.Socket<"buffer">;
  readonly #sockets: Bun.udp.Socket<"buffer">[];
  #nowMs = 0;
  #isDue = false;

  static async open(
    watch: NativeWatch,
    udp: UdpPort,
    receive: Received,
    onSent: (data: Uint8Array, port: number) => void,
  ): Promise<WatchedSocket> {
    let watched: WatchedSocket | null = null;
    // What comes between two watches is the loop's.
    const data = (_socket: unknown, late: Buffer) => receive(late, watched?.now ?? 0);
    const bind = (handler: object) =>
      Bun.udpSocket({ hostname: ADDRESS, port: 0, binaryType: "buffer", socket: handler });
    watched = new WatchedSocket(watch, udp, receive, onSent, await bind({ data, error() {} }), await bind({}));
    return watched;
  }

  private constructor(
    watch: NativeWatch,
    udp: UdpPort,
    receive: Received,
    onSent: (data: Uint8Array, port: number) => void,
    socket: Bun.udp.Socket<"buffer">,
    sender: Bun.udp.Socket<"buffer">,
  ) {
    this.#port = socket.port;
    this.#sender = sender;
    this.#sockets = [socket, sender];
    this.source = { port: sender.port, address: addressWords(ADDRESS) as Uint32Array };
    const { fd } = socket as unknown as { fd: number };
    // Nobody is where the copies go.
    tuneUdpSocket(fd, SEND_SLOT_BYTES * SEND_BATCH_PACKETS);
    watch.isStill = true;
    const { wait } = watch;
    watch.wait = (terms) => {
      wait(terms);
      this.#isDue = false;
      this.forwarded += watch.taken - watch.reports;
      this.laidAside += watch.reports;
      for (let slot = 0, left = watch.sent.packets; left > 0 && slot < SEND_BATCH_PACKETS; slot++) {
        const length = terms.batch.length(slot);
        if (length === 0) continue;
        left--;
        const at = slot * SEND_SLOT_BYTES;
        onSent(terms.batch.arena.slice(at, at + length), terms.batch.port(slot));
      }
    };
    this.media = new MediaWatch({
      watch,
      socket: { fd, isV6: false },
      batch: new SendBatch(() => {}),
      host: {
        now: () => this.#nowMs,
        pace: { dueInMs: () => (this.#isDue ? 1 : 0), packetCame() {} },
        later: setImmediate,
      },
      onDatagram: (data, _port, _address, cameAtMs = this.#nowMs) => receive(data, cameAtMs),
      onFault: (error) => {
        throw error;
      },
      settle: () => {
        udp.settle();
        return true;
      },
      counted() {},
    });
  }

  get now(): number {
    return this.#nowMs;
  }

  async deliver(packets: readonly Uint8Array[], intake: MediaIntake, nowMs: number): Promise<void> {
    this.#nowMs = nowMs;
    for (let at = 0; at < packets.length; at += AT_ONCE) {
      for (const packet of packets.slice(at, at + AT_ONCE)) this.#sender.send(packet, this.#port, ADDRESS);
      this.#isDue = true;
      this.media.usual(intake, nowMs);
      this.media.keep();
    }
    await new Promise(setImmediate);
  }

  close(): void {
    this.media.close();
    for (const socket of this.#sockets) socket.close();
  }
}
