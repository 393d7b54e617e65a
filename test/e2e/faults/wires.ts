/** Networks that can be made worse while clients use them: a relay of datagrams and one of connections. */
import { connect, createServer, type Server, type Socket } from "node:net";
import { Impairment, type ImpairmentOptions } from "../../../src/kernel/net/impairment.ts";

type Datagram = { data: Buffer; deliver: (data: Buffer) => void };
const TICK_MS = 5;

/** A proxy between the clients and the media port, which loses, doubles and reorders packets as it is told, in both directions. */
export class PacketWire {
  readonly #upstream = new Map<number, Bun.udp.Socket<"buffer">>();
  readonly #wire: Impairment<Datagram>;
  readonly #timer: Timer;
  #socket: Bun.udp.Socket<"buffer"> | null = null;
  #mediaPort = 0;
  relayed = 0;

  constructor(seed: number) {
    this.#wire = new Impairment(seed);
    this.#timer = setInterval(() => this.#deliver(), TICK_MS);
  }

  get lost(): number {
    return this.#wire.lost;
  }

  set(options: ImpairmentOptions): void {
    this.#wire.set(options);
  }

  /** The same answer with this wire's port in the place of the server's. */
  async through(sdp: string): Promise<string> {
    this.#socket ??= await this.#bind((data, port) => void this.#up(data, port));
    this.#mediaPort = Number(/a=candidate:\S+ 1 udp \d+ \S+ (\d+)/.exec(sdp)?.[1]);
    const { port } = this.#socket;
    return sdp.replace(/(a=candidate:\S+ 1 udp \d+ \S+) \d+/g, (_, start: string) => `${start} ${port}`);
  }

  async #up(data: Buffer, from: number): Promise<void> {
    let upstream = this.#upstream.get(from);
    if (!upstream) {
      upstream = await this.#bind((answer) => this.#push(answer, (it) => this.#socket?.send(it, from, "127.0.0.1")));
      this.#upstream.set(from, upstream);
    }
    const out = upstream;
    const port = this.#mediaPort;
    this.#push(data, (it) => void (out.closed || out.send(it, port, "127.0.0.1")));
  }

  #push(data: Buffer, send: (data: Buffer) => unknown): void {
    const deliver = (it: Buffer) => {
      try {
        send(it);
      } catch {
        // The other end is closed, so the packet is lost.
      }
    };
    this.relayed++;
    this.#wire.push({ data: Buffer.from(data), deliver }, data.length, performance.now());
    this.#deliver();
  }

  #deliver(): void {
    for (const { data, deliver } of this.#wire.takeDue(performance.now())) deliver(data);
  }

  #bind(onData: (data: Buffer, port: number) => void): Promise<Bun.udp.Socket<"buffer">> {
    return Bun.udpSocket({
      hostname: "127.0.0.1",
      binaryType: "buffer",
      socket: { data: (_socket, data, port) => onData(data, port), error: () => {} },
    });
  }

  /** Disconnects its current users. */
  forget(): void {
    for (const socket of this.#upstream.values()) socket.close();
    this.#upstream.clear();
  }

  close(): void {
    clearInterval(this.#timer);
    this.forget();
    this.#socket?.close();
  }
}

type Pair = { near: Socket; far: Socket; silent: boolean };

/** Between clients and the server's port: can fall silent without either side hearing of an end. */
export class ConnectionWire {
  readonly #pairs = new Set<Pair>();
  readonly #server: Server;
  silenced = 0;

  private constructor(server: Server) {
    this.#server = server;
  }

  /** `target` is asked for each connection: the server moves when it restarts. */
  static async open(target: () => string): Promise<ConnectionWire> {
    const server = createServer((near) => wire.#join(near, Number(new URL(target()).port)));
    const wire = new ConnectionWire(server);
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    return wire;
  }

  get url(): string {
    const address = this.#server.address();
    return `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`;
  }

  #join(near: Socket, port: number): void {
    const pair: Pair = { near, far: connect(port, "127.0.0.1"), silent: false };
    this.#pairs.add(pair);
    const directions: [Socket, Socket][] = [
      [pair.near, pair.far],
      [pair.far, pair.near],
    ];
    for (const [from, to] of directions) {
      from.on("data", (data) => void (pair.silent || to.write(data)));
      from.on("error", () => {});
      from.on("close", () => {
        if (!pair.silent) to.destroy();
      });
    }
  }

  /** From now on nothing passes on the connections there are; none of them is closed. */
  fallSilent(): void {
    for (const pair of this.#pairs) {
      if (!pair.silent && !pair.near.destroyed) this.silenced++;
      pair.silent = true;
    }
  }

  close(): void {
    for (const { near, far } of this.#pairs) {
      near.destroy();
      far.destroy();
    }
    this.#server.close();
  }
}
