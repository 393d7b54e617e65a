import { afterEach, describe, expect, test } from "bun:test";
import { openPortReuse, type PortReuse } from "../../../src/kernel/net/socket-options.ts";
import { PortSharing, type SharedPort } from "../../../src/sfu/transport/port-sharing/port-sharing.ts";
import { addressKey, MAX_STEERED, steeringProgram } from "../../../src/sfu/transport/port-sharing/steering.ts";
import { UdpPort } from "../../../src/sfu/transport/udp.ts";

const SALT = 0xdead_beef;

function key(address: string, port: number): number {
  const found = addressKey(address, port, SALT);
  if (found === null) throw new Error(`${address} is no address`);
  return found;
}

describe("the kernel divides the datagrams of one port", () => {
  const open: { close(): void }[] = [];
  afterEach(() => {
    for (const socket of open.splice(0)) socket.close();
  });
  const reuse = openPortReuse() as PortReuse;
  const until = async (check: () => boolean) => {
    for (let i = 0; i < 400 && !check(); i++) await Bun.sleep(5);
  };

  const bind = async (hostname: string, port = 0) => {
    const got: string[] = [];
    const onDatagram = (data: Buffer) => void got.push(data.toString());
    const socket = await UdpPort.bind({ hostname, port, reusePort: port !== 0, onDatagram });
    open.push(socket);
    return { socket, got, port: socket.port, fd: socket.fd as number };
  };
  const clients = async (hostname: string, count: number) => {
    const all = await Promise.all(Array.from({ length: count }, () => Bun.udpSocket({ hostname })));
    open.push(...all);
    return all;
  };

  test.each([
    ["127.0.0.1", "127.0.0.1"],
    ["::1", "::1"],
    ["::", "127.0.0.1"],
    ["::", "::1"],
  ])("a socket on %s gets the datagrams of its clients at %s, among many addresses", async (host, from) => {
    const first = await bind(host);
    expect(reuse.allow(first.fd, true)).toBe(true);
    const second = await bind(host, first.port);
    const third = await bind(host, first.port);
    const peers = await clients(from, 60);
    const known = peers.slice(0, 40).map(({ port }, i) => ({ key: key(from, port), socket: i % 2 }));
    const others = Array.from({ length: MAX_STEERED - known.length }, (_, i) => ({
      key: key(i % 2 ? "192.0.2.1" : "2001:db8::1", i),
      socket: i % 3,
    }));
    expect(reuse.attach(second.fd, steeringProgram([...known, ...others], 2, SALT))).toBe(true);
    for (const [i, peer] of peers.entries()) peer.send(i < 40 ? String(i % 2) : "2", first.port, from);
    const all = [first, second, third];
    await until(() => all.reduce((sum, { got }) => sum + got.length, 0) === peers.length);
    expect(all.map(({ got }) => got.join(""))).toEqual(["0".repeat(20), "1".repeat(20), "2".repeat(20)]);
  });

  test("more addresses than fit are refused before the kernel sees them, and without addresses one socket gets all", () => {
    const tooMany = Array.from({ length: MAX_STEERED + 1 }, (_, i) => ({ key: i, socket: 0 }));
    expect(() => steeringProgram(tooMany, 0, SALT)).toThrow(RangeError);
    expect(steeringProgram([], 1, SALT)).toHaveLength(8);
  });

  test("a newer process gets no datagrams of the older one's clients once it has bound the port", async () => {
    const older = await bind("127.0.0.1");
    const peers = await clients("127.0.0.1", 40);
    const addresses = () => peers.map(({ port }) => ({ address: "127.0.0.1", port }));
    const output = { onSharers() {}, onFault: (error: unknown) => expect(error).toBeNull() };
    const sharing = PortSharing.alone(output, { udp: older.socket, tcp: null, addresses, deliver() {} });
    const reached = await PortSharing.reach(sharing.offer() as SharedPort, output);
    open.push(sharing, reached as PortSharing);
    const newer: string[] = [];
    const socket = await UdpPort.bind({
      hostname: "127.0.0.1",
      port: older.port,
      reusePort: true,
      onBound: (fd) => reached?.steerAtOnce(fd),
      onDatagram: (data) => void newer.push(data.toString()),
    });
    open.push(socket);
    // It has not joined yet, which takes a program that has just started some time.
    for (const peer of peers) peer.send("x", older.port, "127.0.0.1");
    await until(() => older.got.length + newer.length === peers.length);
    expect([older.got.length, newer.length]).toEqual([peers.length, 0]);
  });

  test("when the first socket closes, the last one gets its index", async () => {
    const first = await bind("127.0.0.1");
    reuse.allow(first.fd, true);
    const second = await bind("127.0.0.1", first.port);
    const third = await bind("127.0.0.1", first.port);
    reuse.attach(second.fd, steeringProgram([], 0, SALT));
    first.socket.close();
    const [peer] = await clients("127.0.0.1", 1);
    for (let i = 0; i < 20; i++) peer?.send("x", second.port, "127.0.0.1");
    await until(() => third.got.length === 20);
    expect([third.got.length, second.got.length]).toEqual([20, 0]);
  });

  test("a port that is no longer shared cannot be bound by others, whatever options they set", async () => {
    const first = await bind("127.0.0.1");
    reuse.allow(first.fd, true);
    reuse.allow(first.fd, false);
    await expect(bind("127.0.0.1", first.port)).rejects.toThrow("EADDRINUSE");
  });

  test("an address has the same key in every notation, and text that is not an address has none", () => {
    expect(key("::ffff:192.0.2.7", 5)).toBe(key("192.0.2.7", 5));
    expect(key("fe80::1%eth0", 5)).toBe(key("fe80::1", 5));
    expect(key("192.0.2.7", 5)).not.toBe(key("192.0.2.7", 6));
    expect(addressKey("nobody", 5, SALT)).toBe(null);
    expect(addressKey("192.0.2.7", 5, SALT)).not.toBe(addressKey("192.0.2.7", 5, SALT + 1));
  });
});
