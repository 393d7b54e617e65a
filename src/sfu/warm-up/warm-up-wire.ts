/** The way of what peers send in a rehearsal: through the kernel, so that native code finds it at a socket as ever. */
import { closeSync, openSync } from "node:fs";
import { devNull } from "node:os";
import type { NativePath } from "../fast-path/native-path.ts";
import { SEND_SLOT_BYTES, type SendBatch } from "../forwarding/send-batch.ts";
import { ADDRESS } from "./warm-up-peer.ts";

type Socket = Bun.udp.Socket<"buffer">;

/** A watch may have to let time pass, and only then waits for what is there. */
const WATCHES_AT_ONCE = 3;

export class RehearsalWire {
  /** Packets that native code has forwarded by itself. */
  forwarded = 0;
  /** Packets that have been sent and not been received. */
  #onTheirWay = 0;
  /** By the port from which its packets come, one for each peer. */
  readonly #from: ReadonlyMap<number, Socket>;
  readonly #to: Socket;
  /** The watch that would be waiting now. */
  #watch: (() => void) | null = null;
  /** Can always be read: a watch that looks at it ends when nothing is left at the socket. */
  readonly #ready = openSync(devNull, "r");

  static async open(peers: number, onReceived: (data: Buffer, port: number) => void): Promise<RehearsalWire> {
    let wire: RehearsalWire | null = null;
    const received = (_socket: Socket, data: Buffer, port: number) => {
      if (wire === null) return;
      if (!wire.#from.has(port)) return;
      wire.#onTheirWay--;
      onReceived(data, port);
    };
    const bind = (socket: Bun.udp.SocketHandler<"buffer">) =>
      Bun.udpSocket({ hostname: ADDRESS, port: 0, binaryType: "buffer", socket });
    const from = await Promise.all(Array.from({ length: peers }, () => bind({})));
    wire = new RehearsalWire(from, await bind({ data: received, error() {} }));
    return wire;
  }

  private constructor(from: Socket[], to: Socket) {
    this.#from = new Map(from.map((socket) => [socket.port, socket]));
    this.#to = to;
  }

  /** From which packets come. */
  get ports(): number[] {
    return [...this.#from.keys()];
  }

  get isEmpty(): boolean {
    return this.#onTheirWay <= 0;
  }

  send(data: Buffer, from: number): void {
    if (this.#from.get(from)?.send(data, this.#to.port, ADDRESS)) this.#onTheirWay++;
  }

  /** Nothing comes before the next packets are sent: until then a watch would wait, and watch again and again in vain. */
  readonly later = standIn((watch: () => void): void => {
    this.#watch = watch;
  });

  /** Packets are there for whoever would be waiting. */
  watch(): void {
    for (let i = 0; i < WATCHES_AT_ONCE && this.#watch && !this.isEmpty; i++) {
      const watch = this.#watch;
      this.#watch = null;
      watch();
    }
  }

  /** A watch waits here instead of where nothing ever comes, and what it sends leads nowhere. */
  lead({ watch }: NativePath, onSent: (data: Uint8Array, port: number) => void): void {
    const { fd } = this.#to as { fd?: number };
    const { wait } = watch;
    // The same object, so that code which is compiled now knows it again.
    watch.wait = standIn((terms) => {
      // A socket of the one family sends nothing to addresses of the other.
      wait({ ...terms, socket: { fd: fd ?? -1, isV6: true }, loop: this.#ready });
      this.#onTheirWay -= watch.received;
      this.forwarded += watch.taken - watch.reports;
      for (let slot = 0, left = watch.sent.packets; left > 0 && slot < terms.batch.capacity; slot++) {
        if (terms.batch.length(slot) === 0) continue;
        left--;
        onSent(packetOf(terms.batch, slot), terms.batch.port(slot));
      }
    });
  }

  close(): void {
    for (const socket of [...this.#from.values(), this.#to]) socket.close();
    closeSync(this.#ready);
  }
}

/**
 * What is done in a rehearsal only. Compiled code takes in what it calls, and would be thrown away with the first real call,
 * where something else stands in this place: a bound function it just calls.
 */
export function standIn<A extends unknown[], R>(does: (...given: A) => R): (...given: A) => R {
  return does.bind(null);
}

export function packetOf(batch: SendBatch, slot: number): Uint8Array {
  return batch.arena.subarray(slot * SEND_SLOT_BYTES, slot * SEND_SLOT_BYTES + batch.length(slot));
}
