import { afterEach, describe, expect, test } from "bun:test";
import { typescriptPath } from "../../../src/sfu/fast-path/fast-path.ts";
import { UdpPort } from "../../../src/sfu/transport/udp.ts";
import { PATHS } from "../fast-path/both-paths.ts";

type Client = { socket: Bun.udp.Socket<"buffer">; got: string[] };

describe.each(PATHS)("the one UDP socket of a worker, %s", (_name, path) => {
  const open: { close(): void }[] = [];
  afterEach(() => {
    for (const socket of open.splice(0)) socket.close();
  });

  const client = async (): Promise<Client> => {
    const got: string[] = [];
    const socket = await Bun.udpSocket({
      hostname: "127.0.0.1",
      binaryType: "buffer",
      socket: { data: (_socket, data) => void got.push(data.toString()) },
    });
    open.push(socket);
    return { socket, got };
  };
  const bind = async (options: Partial<Parameters<typeof UdpPort.bind>[0]> = {}) => {
    const port = await UdpPort.bind({ hostname: "127.0.0.1", port: 0, onDatagram: () => {}, path, ...options });
    open.push(port);
    return port;
  };
  const until = async (check: () => boolean) => {
    for (let i = 0; i < 400 && !check(); i++) await Bun.sleep(5);
  };

  test("pitfall: other peers lose no packet when a peer has gone", async () => {
    const port = await bind();
    const gone = await client();
    const live = await client();
    const deadPort = gone.socket.port;
    gone.socket.close();
    for (let i = 0; i < 100; i++) {
      port.send(Buffer.from("to nobody"), deadPort, "127.0.0.1");
      port.send(Buffer.from(`packet ${i}`), live.socket.port, "127.0.0.1");
      await Bun.sleep(1);
    }
    await until(() => live.got.length === 100);
    expect(live.got).toEqual(Array.from({ length: 100 }, (_, i) => `packet ${i}`));
  });

  test("several batches are sent in one slice of the event loop, in order", async () => {
    const port = await bind();
    const peer = await client();
    for (let i = 0; i < 240; i++) port.send(Buffer.from(String(i)), peer.socket.port, "127.0.0.1");
    await until(() => peer.got.length === 240);
    expect(peer.got).toEqual(Array.from({ length: 240 }, (_, i) => String(i)));
    expect(port.counters).toMatchObject({ packetsOut: 240, dropped: 0 });
  });

  test("if an address has no route, only the packet to it is lost", async () => {
    const port = await bind();
    const peer = await client();
    port.send(Buffer.from("a"), peer.socket.port, "127.0.0.1");
    port.send(Buffer.from("x"), 9, "255.255.255.255");
    port.send(Buffer.from("b"), peer.socket.port, "127.0.0.1");
    await until(() => peer.got.length === 2);
    expect(peer.got).toEqual(["a", "b"]);
  });

  test("a control packet may be changed by its owner after it was handed over", async () => {
    const port = await bind();
    const peer = await client();
    const data = Buffer.from("first");
    port.send(data, peer.socket.port, "127.0.0.1");
    data.write("other");
    await until(() => peer.got.length === 1);
    expect(peer.got).toEqual(["first"]);
  });

  test("packets in are counted and handed on with their sender", async () => {
    const seen: { text: string; port: number; address: string }[] = [];
    const port = await bind({
      onDatagram: (data, from, address) => void seen.push({ text: data.toString(), port: from, address }),
    });
    const peer = await client();
    peer.socket.send("hello", port.port, "127.0.0.1");
    await until(() => seen.length === 1);
    expect(seen).toEqual([{ text: "hello", port: peer.socket.port, address: "127.0.0.1" }]);
    expect(port.counters).toMatchObject({ packetsIn: 1, bytesIn: 5 });
  });

  test("a response is sent only when everything that arrived was read, because peers respond to it at once", async () => {
    const sentWhileReading: number[] = [];
    const port = await bind({
      onDatagram: (data, from, address) => {
        port.send(data, from, address);
        queueMicrotask(() => sentWhileReading.push(port.counters.packetsOut));
      },
    });
    const peer = await client();
    peer.socket.send("hello", port.port, "127.0.0.1");
    await until(() => peer.got.length === 1);
    expect(peer.got).toEqual(["hello"]);
    expect(sentWhileReading).toEqual([0]);
  });

  test("[17] the buffers of received packets are collected after every eight MiB", async () => {
    const read: WeakRef<Buffer>[] = [];
    const port = await bind({ onDatagram: (data) => void read.push(new WeakRef(data)) });
    const peer = await client();
    const held = () => read.filter((one) => one.deref()).length;
    const packet = Buffer.alloc(8_192);
    const send = async (count: number) => {
      const until = port.counters.packetsIn + count;
      while (port.counters.packetsIn < until) {
        peer.socket.send(packet, port.port, "127.0.0.1");
        await new Promise(setImmediate);
      }
    };
    await send(1_000);
    Bun.gc(true);
    // The eight MiB are full for the second time with the 2,048th.
    await send(1_100);
    expect(held()).toBeLessThan(100);
  });

  test("a dual-stack socket reaches IPv4 peers under the address it shows", async () => {
    let answered = false;
    const port = await bind({
      hostname: "::",
      onDatagram: (_data, from, address) => {
        port.send(Buffer.from(address), from, address);
        answered = true;
      },
    });
    const peer = await client();
    peer.socket.send("hello", port.port, "127.0.0.1");
    await until(() => peer.got.length === 1);
    expect(answered).toBe(true);
    expect(peer.got).toEqual(["::ffff:127.0.0.1"]);
  });

  test("on Linux the kernel's ICMP reports are off and the buffers are large", async () => {
    const port = await bind();
    if (process.platform === "linux") expect(port.tuning).toEqual({ icmpErrorsSilenced: true, buffersRaised: true });
  });
});

test("packets that native code could not send are sent by the socket, and counted once", async () => {
  const got: string[] = [];
  const peer = await Bun.udpSocket({
    hostname: "127.0.0.1",
    binaryType: "buffer",
    socket: { data: (_socket, data) => void got.push(data.toString()) },
  });
  const port = await UdpPort.bind({
    hostname: "127.0.0.1",
    port: 0,
    onDatagram: () => {},
    path: {
      ...typescriptPath,
      // Simulates a kernel buffer that is full after the first and the third packet.
      send: (_fd, batch) => {
        batch.markSent(0);
        batch.markSent(2);
        return false;
      },
    },
  });
  for (const text of ["one", "three", "five", "seventeen"]) port.send(Buffer.from(text), peer.port, "127.0.0.1");
  for (let i = 0; i < 400 && got.length < 2; i++) await Bun.sleep(5);
  expect(got).toEqual(["three", "seventeen"]);
  expect(port.counters).toMatchObject({ packetsOut: 4, bytesOut: 21, dropped: 0 });
  port.close();
  peer.close();
});
