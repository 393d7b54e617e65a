import { createSocket } from "node:dgram";
import { Impairment } from "../../kernel/net/impairment.ts";
import type { PeerSocket } from "../peer.ts";
import type { NetworkFaults } from "./participant-events.ts";

const TICK_MS = 5;

/** Sockets with simulated loss and delay in both directions. */
export class SimulatedNetwork {
  #faults: NetworkFaults = {};
  readonly #paths = new Set<ImpairedPath>();

  set(faults: NetworkFaults): void {
    const { loss = 0, delayMs = 0 } = faults;
    if (!(loss >= 0 && loss <= 1)) throw new RangeError(`loss is a share from 0 to 1, not ${loss}`);
    if (!(delayMs >= 0 && delayMs <= 10_000)) throw new RangeError(`delayMs is from 0 to 10,000, not ${delayMs}`);
    this.#faults = faults;
    for (const path of this.#paths) path.set(faults);
  }

  open = (onData: (data: Buffer) => void): Promise<PeerSocket> =>
    new Promise((resolve, reject) => {
      const socket = createSocket({ type: "udp4", recvBufferSize: 1 << 20 });
      let closed = false;
      const out = new ImpairedPath(1, this.#faults, ({ data, port, address }) => {
        if (!closed) socket.send(data, port, address, () => {});
      });
      const back = new ImpairedPath(2, this.#faults, ({ data }) => {
        if (!closed) onData(data);
      });
      for (const path of [out, back]) this.#paths.add(path);
      socket.on("message", (data) => back.push({ data, port: 0, address: "" }));
      socket.once("error", reject);
      socket.bind(0, () => {
        socket.off("error", reject);
        // An ICMP error means that the remote port is closed: the packet counts as lost.
        socket.on("error", () => {});
        const { port } = socket.address();
        resolve({
          port,
          get closed() {
            return closed;
          },
          send: (data, to, address) => out.push({ data: Buffer.from(data), port: to, address }),
          close: () => {
            closed = true;
            for (const path of [out, back]) {
              path.close();
              this.#paths.delete(path);
            }
            socket.close();
          },
        });
      });
    });
}

type Packet = { data: Buffer; port: number; address: string };

class ImpairedPath {
  readonly #salt: number;
  readonly #deliver: (packet: Packet) => void;
  #impairment: Impairment<Packet> | null = null;
  #timer: ReturnType<typeof setInterval> | null = null;

  constructor(salt: number, faults: NetworkFaults, deliver: (packet: Packet) => void) {
    this.#salt = salt;
    this.#deliver = deliver;
    this.set(faults);
  }

  set({ loss = 0, delayMs = 0, seed = 1 }: NetworkFaults): void {
    this.#flush(Number.POSITIVE_INFINITY);
    this.close();
    if (loss === 0 && delayMs === 0) return;
    this.#impairment = new Impairment<Packet>(seed * 2 + this.#salt, { lossRatio: loss, delayMs });
    if (delayMs > 0) this.#timer = setInterval(() => this.#flush(performance.now()), TICK_MS);
  }

  push(packet: Packet): void {
    if (!this.#impairment) {
      this.#deliver(packet);
      return;
    }
    const now = performance.now();
    this.#impairment.push(packet, packet.data.length, now);
    this.#flush(now);
  }

  close(): void {
    if (this.#timer) clearInterval(this.#timer);
    this.#timer = null;
    this.#impairment = null;
  }

  #flush(nowMs: number): void {
    for (const packet of this.#impairment?.takeDue(nowMs) ?? []) this.#deliver(packet);
  }
}
