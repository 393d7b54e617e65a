import { dlopen, FFIType, ptr } from "bun:ffi";
import { afterEach, describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { type TcpConnection, TcpPort } from "../../../src/sfu/transport/tcp.ts";
import { MAX_UNPROVEN_PER_ADDRESS } from "../../../src/sfu/transport/tcp-admission.ts";

function frame(text: string): Buffer {
  const body = Buffer.from(text);
  const out = Buffer.alloc(2 + body.length);
  out.writeUInt16BE(body.length, 0);
  body.copy(out, 2);
  return out;
}

describe("ICE over TCP", () => {
  const cleanup: (() => void)[] = [];
  afterEach(() => {
    for (const close of cleanup.splice(0)) close();
  });

  const listen = () => {
    const packets: string[] = [];
    const connections: TcpConnection[] = [];
    const closed: TcpConnection[] = [];
    const probe = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
    const { port: number } = probe;
    probe.stop(true);
    const port = TcpPort.listen({
      hostname: "127.0.0.1",
      port: number,
      onPacket: (data, connection) => {
        packets.push(data.toString());
        if (!connections.includes(connection)) connections.push(connection);
      },
      onClosed: (connection) => void closed.push(connection),
    });
    cleanup.push(() => port.close());
    return { port, number, packets, connections, closed };
  };
  const connect = async (number: number) => {
    const received: Buffer[] = [];
    let ended = false;
    const socket = await Bun.connect({
      hostname: "127.0.0.1",
      port: number,
      socket: {
        data: (_socket, data) => void received.push(Buffer.from(data)),
        close: () => {
          ended = true;
        },
      },
    });
    cleanup.push(() => socket.end());
    return { socket, received, isClosed: () => ended };
  };
  const until = async (check: () => boolean) => {
    for (let i = 0; i < 400 && !check(); i++) await Bun.sleep(5);
    expect(check()).toBe(true);
  };

  test("the kernel keeps little that it cannot send yet", async () => {
    if (process.platform !== "linux") return;
    const { number } = listen();
    const before = new Set(readdirSync("/proc/self/fd"));
    await connect(number);
    await Bun.sleep(20);
    const libc = dlopen("libc.so.6", {
      getsockopt: { args: [FFIType.i32, FFIType.i32, FFIType.i32, FFIType.ptr, FFIType.ptr], returns: FFIType.i32 },
    });
    const value = new Int32Array(1);
    const bounds = readdirSync("/proc/self/fd")
      .filter((fd) => !before.has(fd))
      .map((fd) => libc.symbols.getsockopt(Number(fd), 6, 25, ptr(value), ptr(new Int32Array([4]))) === 0 && value[0]);
    libc.close();
    expect(bounds).toContain(16_384);
  });

  test("frames are found however the stream is cut", async () => {
    const { number, packets } = listen();
    const { socket } = await connect(number);
    const stream = Buffer.concat([frame("one"), frame(""), frame("three"), frame("x".repeat(1_500))]);
    for (let at = 0; at < stream.length; at += 7) {
      socket.write(stream.subarray(at, at + 7));
      socket.flush();
      if (at % 70 === 0) await Bun.sleep(1);
    }
    await until(() => packets.length === 4);
    expect(packets).toEqual(["one", "", "three", "x".repeat(1_500)]);
  });

  test("responses are sent in frames", async () => {
    const { number, connections, packets } = listen();
    const { socket, received } = await connect(number);
    socket.write(frame("hello"));
    await until(() => packets.length === 1);
    connections[0]?.send(Buffer.from("welcome"));
    await until(() => received.length > 0);
    expect(Buffer.concat(received).toString("hex")).toBe(frame("welcome").toString("hex"));
  });

  test("a stream that is not ICE is closed", async () => {
    const { number, packets } = listen();
    const { socket, isClosed } = await connect(number);
    socket.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    await until(isClosed);
    expect(packets).toEqual([]);
  });

  test("a client that does not read loses whole packets, and a limited amount of data waits for it", async () => {
    const { number, connections, packets } = listen();
    const { socket, received } = await connect(number);
    socket.write(frame("hello"));
    await until(() => packets.length === 1);
    socket.pause();
    const packet = Buffer.alloc(1_200, 7);
    for (let i = 0; i < 20_000; i++) connections[0]?.send(packet);
    socket.resume();
    await Bun.sleep(200);
    const all = Buffer.concat(received);
    expect(all.length).toBeLessThan(20_000 * 1_202);
    for (let at = 0; at + 1_202 <= all.length; at += 1_202) expect(all.readUInt16BE(at)).toBe(1_200);
  });

  test("the closing of a connection is reported", async () => {
    const { number, packets, closed, port } = listen();
    const { socket } = await connect(number);
    socket.write(frame("hello"));
    await until(() => packets.length === 1);
    socket.end();
    await until(() => closed.length === 1);
    expect(port.connections).toBe(0);
  });

  test("the oldest unproven connection of an address is closed for a new one; authenticated ones stay", async () => {
    const { port, number, connections } = listen();
    const proven = await connect(number);
    proven.socket.write(frame("check"));
    await until(() => connections.length === 1);
    (connections[0] as TcpConnection).authenticated = true;
    const idle: Awaited<ReturnType<typeof connect>>[] = [];
    for (let i = 0; i < MAX_UNPROVEN_PER_ADDRESS; i += 1) idle.push(await connect(number));
    await until(() => port.connections === MAX_UNPROVEN_PER_ADDRESS + 1);
    const late = await connect(number);
    await until(() => idle[0]?.isClosed() ?? false);
    expect(idle.slice(1).some((one) => one.isClosed())).toBe(false);
    expect(proven.isClosed()).toBe(false);
    late.socket.write(frame("late"));
    await until(() => connections.length === 2);
    expect(late.isClosed()).toBe(false);
    expect(port.connections).toBe(MAX_UNPROVEN_PER_ADDRESS + 1);
  });
});
