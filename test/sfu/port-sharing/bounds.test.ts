import { afterEach, describe, expect, test } from "bun:test";
import {
  helloFrame,
  keysFrames,
  MAX_RELAYED_BYTES,
  parseFrame,
} from "../../../src/sfu/transport/port-sharing/frames.ts";
import { MAX_SHARERS, PortSharing, type SharedPort } from "../../../src/sfu/transport/port-sharing/port-sharing.ts";
import { MAX_STEERED } from "../../../src/sfu/transport/port-sharing/steering.ts";
import { UdpPort } from "../../../src/sfu/transport/udp.ts";

type Address = { address: string; port: number };

describe("a process limits what it accepts from those that share its port", () => {
  const open: { close(): void }[] = [];
  afterEach(() => {
    for (const one of open.splice(0).reverse()) one.close();
  });
  const until = async (check: () => boolean) => {
    for (let i = 0; i < 600 && !check(); i++) await Bun.sleep(5);
    expect(check()).toBe(true);
  };

  /** A process that serves these addresses, and relays every datagram from another one. */
  class Process {
    readonly got: string[] = [];
    readonly strange: string[] = [];
    readonly relayed: string[] = [];
    readonly faults: unknown[] = [];
    readonly serves: Address[] = [];
    others = 0;

    private constructor(
      readonly udp: UdpPort,
      readonly sharing: PortSharing,
    ) {}

    static async start(shared: SharedPort | null = null): Promise<Process> {
      let started: Process | null = null;
      const output = {
        onSharers(others: number) {
          if (started) started.others = others;
        },
        onFault: (error: unknown) => void started?.faults.push(error),
      };
      const reached = shared && (await PortSharing.reach(shared, output));
      if (shared && !reached) throw new Error("nobody is there");
      const udp = await UdpPort.bind({
        hostname: "127.0.0.1",
        port: shared?.port ?? 0,
        reusePort: shared !== null,
        onDatagram: (data, port, address) => started?.receive(data, port, address),
      });
      const sockets = {
        udp,
        tcp: null,
        addresses: () => started?.serves ?? [],
        deliver(data: Buffer, port: number, address: string) {
          started?.relayed.push(data.toString());
          started?.receive(data, port, address);
        },
      };
      const sharing = reached ?? PortSharing.alone(output, sockets);
      started = new Process(udp, sharing);
      if (reached) sharing.join(sockets);
      open.push({
        close: () => {
          udp.close();
          sharing.close();
        },
      });
      return started;
    }

    receive(data: Buffer, port: number, address: string): void {
      if (this.serves.some((one) => one.port === port && one.address === address)) this.got.push(data.toString());
      else if (!this.sharing.relay(data, port, address)) this.strange.push(data.toString());
    }

    offer(): SharedPort {
      const shared = this.sharing.offer();
      if ("unavailable" in shared) throw new Error(shared.unavailable);
      return shared;
    }
  }

  const client = async () => {
    const socket = await Bun.udpSocket({ hostname: "127.0.0.1" });
    open.push(socket);
    return socket;
  };
  const connect = async ({ links }: SharedPort) => {
    const state = { received: 0, isClosed: false };
    const socket = await Bun.connect({
      hostname: "127.0.0.1",
      port: links[0] ?? 0,
      socket: {
        data(_socket, data) {
          state.received += data.length;
        },
        close() {
          state.isClosed = true;
        },
      },
    });
    open.push({ close: () => void socket.terminate() });
    const send = (frame: Uint8Array) => {
      const head = Buffer.alloc(2);
      head.writeUInt16BE(frame.length);
      socket.write(Buffer.concat([head, frame]));
    };
    return { state, send };
  };

  test("a connection to the link port without the right token is closed, and neither gets nor delivers datagrams", async () => {
    const older = await Process.start();
    const shared = older.offer();
    const datagram = Buffer.from([4, 0, 9, 9, ...Buffer.from("127.0.0.1"), ...Buffer.from("forged")]);
    expect(parseFrame(datagram)).toMatchObject({ kind: "datagram", port: 9, address: "127.0.0.1" });
    for (const frame of [datagram, helloFrame(Buffer.alloc(16, 1), 0, []), Buffer.alloc(3), Buffer.alloc(0)]) {
      const stranger = await connect(shared);
      stranger.send(frame);
      stranger.send(datagram);
      await until(() => stranger.state.isClosed);
      expect(stranger.state.received).toBe(0);
    }
    expect([older.got, older.relayed, older.strange]).toEqual([[], [], []]);
    expect(older.sharing.others).toBe(0);
  });

  test("a process that sends malformed messages after the right token is disconnected", async () => {
    const older = await Process.start();
    const shared = older.offer();
    for (const nonsense of [
      Buffer.from([9]),
      Buffer.from([4, 0, 9, 0]),
      Buffer.from([2, 1, 1, 7]),
      Buffer.from([3, 1]),
    ]) {
      const other = await connect(shared);
      other.send(helloFrame(Buffer.from(shared.token, "hex"), 0, []));
      await until(() => other.state.received > 0);
      other.send(nonsense);
      await until(() => other.state.isClosed);
    }
    expect(older.sharing.others).toBe(0);
  });

  test("datagrams of more addresses than the kernel steers are relayed, and none is lost", async () => {
    const older = await Process.start();
    const clients = await Promise.all(Array.from({ length: 4 }, client));
    const [steered, ...rest] = clients.map(({ port }) => ({ address: "127.0.0.1", port }));
    const filler = Array.from({ length: MAX_STEERED - 1 }, (_, i) => ({ address: "192.0.2.1", port: i + 1 }));
    older.serves.push(steered as Address, ...filler, ...rest);
    const newer = await Process.start(older.offer());
    expect(newer.faults).toEqual([]);
    for (const socket of clients) for (let i = 0; i < 50; i++) socket.send(`${i}`, newer.udp.port, "127.0.0.1");
    await until(() => older.got.length === 200);
    expect(older.relayed).toHaveLength(150);
    expect(newer.got).toEqual([]);
  });

  test("a datagram that neither process knows is relayed only once, and the rate of such datagrams is limited", async () => {
    const older = await Process.start();
    const newer = await Process.start(older.offer());
    const stranger = await client();
    stranger.send("who", newer.udp.port, "127.0.0.1");
    await until(() => older.strange.length === 1);
    expect(newer.sharing.counters).toEqual({ relayedOut: 1, relayedIn: 0 });
    expect(newer.relayed).toEqual([]);
    const before = performance.now();
    let passed = 0;
    for (let i = 0; i < 20_000; i++) if (newer.sharing.relay(Buffer.from("x"), 9, "203.0.113.9")) passed++;
    const allowed = 1_000 + 5 * (performance.now() - before + 1);
    expect(passed).toBeGreaterThanOrEqual(999);
    expect(passed).toBeLessThanOrEqual(allowed);
  });

  test("the largest datagram is relayed whole, and a larger one is not", async () => {
    const older = await Process.start();
    const newer = await Process.start(older.offer());
    expect(newer.sharing.relay(Buffer.alloc(MAX_RELAYED_BYTES, "m"), 9, "2001:db8:1111:2222:3333:4444:5555:6666")).toBe(
      true,
    );
    await until(() => older.strange.length === 1);
    expect(older.strange[0]).toHaveLength(MAX_RELAYED_BYTES);
    expect(newer.sharing.relay(Buffer.alloc(MAX_RELAYED_BYTES + 1), 9, "192.0.2.1")).toBe(false);
  });

  test("no more processes share a port than there is room for", async () => {
    const all = [await Process.start()];
    for (let i = 0; i < MAX_SHARERS; i++) all.push(await Process.start((all.at(-1) as Process).offer()));
    const newest = all.at(-1) as Process;
    expect(newest.sharing.others).toBe(MAX_SHARERS);
    expect(newest.sharing.offer()).toEqual({
      unavailable: `${MAX_SHARERS} other processes use the media port already.`,
    });
    const socket = await client();
    (all[3] as Process).serves.push({ address: "127.0.0.1", port: socket.port });
    (all[3] as Process).sharing.addressesChanged();
    await Bun.sleep(60);
    for (let i = 0; i < 20; i++) socket.send("x", newest.udp.port, "127.0.0.1");
    await until(() => (all[3] as Process).got.length === 20);
    expect((all[3] as Process).relayed).toEqual([]);
  });

  test("addresses are sent over a link in parts, and an empty list is one part", () => {
    const all = Array.from({ length: 1_000 }, (_, i) => i);
    const parts = keysFrames(all).map((frame) => parseFrame(frame));
    expect(parts.map((part) => part?.kind === "keys" && [part.isFirst, part.isLast])).toEqual([
      [true, false],
      [false, false],
      [false, true],
    ]);
    expect(parts.flatMap((part) => (part?.kind === "keys" ? part.keys : []))).toEqual(all);
    expect(keysFrames([]).map((frame) => parseFrame(frame))).toEqual([
      { kind: "keys", isFirst: true, isLast: true, keys: [] },
    ]);
  });

  test("a socket without a descriptor cannot be shared, and the reason is given", async () => {
    const sockets = { udp: { port: 5, fd: null }, tcp: null, addresses: () => [], deliver() {} };
    const sharing = PortSharing.alone({ onSharers() {}, onFault() {} }, sockets);
    open.push(sharing);
    expect(sharing.offer()).toEqual({ unavailable: "This system lets no other process use the media port." });
  });
});
