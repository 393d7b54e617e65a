import { afterAll, beforeAll, expect, test } from "bun:test";
import { connect, isIP, type Socket } from "node:net";
import { Duplex } from "node:stream";
import { connect as connectTls } from "node:tls";
import fc from "fast-check";
import { offeredProtocols } from "../../../src/network/tls/client-hello.ts";
import { readProxyHeader } from "../../../src/network/tls/proxy-header.ts";
import { closed, secured, tlsStage } from "./stage.ts";

let stage: Awaited<ReturnType<typeof tlsStage>>;
beforeAll(async () => {
  stage = await tlsStage({ trustedProxies: ["127.0.0.1/32"] });
});
afterAll(() => stage.close());

function version2(source: number[], port: number): Buffer {
  const isV4 = source.length === 4;
  const addresses = Buffer.from([...source, ...source, port >> 8, port & 255, 1, 187]);
  const head = [...Buffer.from("\r\n\r\n\0\r\nQUIT\n", "latin1"), 0x21, isV4 ? 0x11 : 0x21, 0, addresses.length];
  return Buffer.concat([Buffer.from(head), addresses]);
}

const V6 = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5];

async function askedBehind(header: Buffer | null, cut = Number.POSITIVE_INFINITY): Promise<string> {
  const raw = connect(stage.multiplexer.port, "127.0.0.1");
  raw.setNoDelay(true);
  await new Promise((resolve) => raw.once("connect", resolve));
  if (header) {
    raw.write(header.subarray(0, cut));
    if (cut < header.length) {
      await Bun.sleep(20);
      raw.write(header.subarray(cut));
    }
  }
  const socket = connectTls({ socket: raw, rejectUnauthorized: false });
  socket.on("error", () => {});
  socket.write("GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
  let text = "";
  socket.on("data", (data: Buffer) => {
    text += data.toString();
  });
  await closed(socket);
  return text.split("\r\n\r\n")[1] ?? "";
}

/** Writes the first of its bytes one after another, with something in between. */
function inPieces(raw: Socket, between: () => Promise<void>): Duplex {
  let isFirst = true;
  const duplex = new Duplex({
    read() {},
    async write(chunk: Buffer, _encoding, done) {
      const pieces = isFirst ? [chunk.subarray(0, 3), chunk.subarray(3, 100), chunk.subarray(100)] : [chunk];
      for (const piece of pieces) {
        await new Promise((resolve) => raw.write(piece, resolve));
        if (isFirst) await between();
      }
      isFirst = false;
      done();
    },
  });
  raw.on("data", (data: Buffer) => duplex.push(data));
  return duplex;
}

test.each([
  ["version 1", Buffer.from("PROXY TCP4 198.51.100.7 10.0.0.1 4711 443\r\n"), { address: "198.51.100.7", port: 4711 }],
  ["version 1, IPv6", Buffer.from("PROXY TCP6 2001:db8::5 ::1 4711 443\r\n"), { address: "2001:db8::5", port: 4711 }],
  ["version 2", version2([198, 51, 100, 7], 4711), { address: "198.51.100.7", port: 4711 }],
  ["version 2, IPv6", version2(V6, 4711), { address: "2001:db8::5", port: 4711 }],
])("a trusted proxy says for whom it asks: %s", async (_name, header, client) => {
  expect(await askedBehind(header)).toBe(JSON.stringify({ client }));
  expect(await askedBehind(header, 9)).toBe(JSON.stringify({ client }));
});

test("a trusted proxy without a header counts as the client", async () => {
  const body = JSON.parse(await askedBehind(null)) as { client: { address: string } };
  expect(body.client.address).toBe("127.0.0.1");
});

test("a PROXY header from an untrusted address is refused", async () => {
  const untrusting = await tlsStage();
  try {
    const raw = connect(untrusting.multiplexer.port, "127.0.0.1", () =>
      raw.write("PROXY TCP4 198.51.100.7 10.0.0.1 4711 443\r\n"),
    );
    raw.on("error", () => {});
    await closed(raw);
  } finally {
    await untrusting.close();
  }
});

test.each([
  ["an invalid address", "PROXY TCP4 198.51.100.777 10.0.0.1 4711 443\r\n"],
  ["the wrong family", "PROXY TCP6 198.51.100.7 10.0.0.1 4711 443\r\n"],
  ["an invalid port", "PROXY TCP4 198.51.100.7 10.0.0.1 99999 443\r\n"],
  ["a port with a sign", "PROXY TCP4 198.51.100.7 10.0.0.1 -471 443\r\n"],
  ["a zone", "PROXY TCP6 fe80::1%a-b ::1 4711 443\r\n"],
  ["an invalid destination", "PROXY TCP4 198.51.100.7 x 4711 443\r\n"],
  ["too few parts", "PROXY TCP4 198.51.100.7 10.0.0.1 4711\r\n"],
  ["too many parts", "PROXY TCP4 198.51.100.7 10.0.0.1 4711 443 x\r\n"],
  ["nothing", "PROXY \r\n"],
  ["a line without end", `PROXY ${"x".repeat(120)}`],
])("a header with %s is wrong", (_name, header) => {
  expect(readProxyHeader(Buffer.from(header))).toBe("wrong");
});

test("an incomplete version 2 header is waited for, and one with a wrong length is refused", () => {
  const header = version2([198, 51, 100, 7], 4711);
  for (let end = 0; end < header.length; end++) expect(readProxyHeader(header.subarray(0, end))).toBeNull();
  const long = Buffer.from(header);
  long.writeUInt16BE(65_535, 14);
  expect(readProxyHeader(long)).toBe("wrong");
  // Shorter than its addresses: the client would pass for the proxy.
  const short = Buffer.from(header);
  short.writeUInt16BE(4, 14);
  expect(readProxyHeader(short)).toBe("wrong");
});

test("a proxy that names no client counts as the client", () => {
  for (const line of ["PROXY UNKNOWN\r\n", "PROXY UNKNOWN ffff::1 ::1 1 2\r\n"]) {
    expect(readProxyHeader(Buffer.from(`${line}TLS`))).toEqual({ client: null, bytes: line.length });
  }
});

test("during a challenge only clients that offer acme-tls/1 get the challenge certificate", async () => {
  const plain = await tlsStage();
  try {
    const before = await plain.tls();
    await plain.multiplexer.setChallenge(await plain.pem("challenge"));
    const authority = await secured(plain.multiplexer.port, ["acme-tls/1"]);
    expect(authority.getPeerCertificate().subject.CN).toBe("challenge");
    expect(authority.alpnProtocol).toBe("acme-tls/1");
    const others = [
      await plain.tls(),
      await plain.tls(["h2", "http/1.1"]),
      await plain.tls(["acme-tls/1", "http/1.1"]),
    ];
    for (const socket of others) expect(socket.getPeerCertificate().subject.CN).toBe("first");
    const own = others[0]?.localPort;
    await plain.multiplexer.setChallenge(null);
    // A connection that came during the challenge continues after it.
    const [during] = others;
    during?.write("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
    const answer = String(await new Promise((resolve) => during?.once("data", resolve)));
    expect(answer).toContain(JSON.stringify({ client: { address: "127.0.0.1", port: own } }));
    before.write("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
    expect(String(await new Promise((resolve) => before.once("data", resolve)))).toContain("200 OK");
    for (const socket of [authority, before, ...others]) socket.destroy();
    expect((await plain.get("/")).status).toBe(200);
  } finally {
    await plain.close();
  }
});

test("connections during a challenge are served like all others", async () => {
  const within = await tlsStage({ overLoopback: true });
  try {
    await within.multiplexer.setChallenge(await within.pem("challenge"));
    const during = await within.tls();
    during.write("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
    expect(String(await new Promise((resolve) => during.once("data", resolve)))).toContain("200 OK");
    // A connection of loopback in between would have a slot.
    const slots = Array.from({ length: 65_536 }, (_none, port) => within.tables.tcp.has(port)).filter(Boolean);
    expect(slots.length).toBe(0);
    during.destroy();
  } finally {
    await within.close();
  }
});

test("a ClientHello in pieces is assembled, even when the challenge ends in between", async () => {
  const plain = await tlsStage();
  try {
    const proof = await plain.pem("challenge");
    await plain.multiplexer.setChallenge(proof);
    for (const endsBetween of [false, true]) {
      const raw = connect(plain.multiplexer.port, "127.0.0.1");
      raw.setNoDelay(true);
      const pieces = inPieces(raw, async () => {
        if (endsBetween) await plain.multiplexer.setChallenge(null);
        await plain.multiplexer.stats();
      });
      const socket = connectTls({ socket: pieces, rejectUnauthorized: false });
      await new Promise((resolve, reject) => socket.once("secureConnect", resolve).once("error", reject));
      expect(socket.getPeerCertificate().subject.CN).toBe("first");
      socket.write("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
      expect(String(await new Promise((resolve) => socket.once("data", resolve)))).toContain("200 OK");
      raw.destroy();
    }
  } finally {
    await plain.close();
  }
});

test("an incomplete ClientHello is waited for, and malformed bytes offer nothing", () => {
  expect(offeredProtocols(Buffer.from([0x16, 3, 1]))).toBeNull();
  expect(offeredProtocols(Buffer.from([0x16, 3, 1, 0, 5, 1, 0, 0, 200]))).toBeNull();
  expect(offeredProtocols(Buffer.from("GET / HTTP/1.1"))).toEqual([]);
  expect(offeredProtocols(Buffer.from([0x16, 3, 1, 0, 5, 1, 0, 0, 1, 9]))).toEqual([]);
});

const record = (bytes: readonly number[]) => [0x16, 3, 1, bytes.length >> 8, bytes.length & 255, ...bytes];
const list = [...Buffer.from("acme-tls/1")];
const alpn = [0, 16, 0, list.length + 3, 0, list.length + 1, list.length, ...list];
const hello = [3, 3, ...Array(32).fill(0), 0, 0, 2, 0x13, 1, 1, 0, 0, alpn.length, ...alpn];
const helloMessage = [1, 0, 0, hello.length, ...hello];

test("a ClientHello may span several records", () => {
  for (const size of [helloMessage.length, 40, 10]) {
    const records = [];
    for (let at = 0; at < helloMessage.length; at += size) records.push(...record(helloMessage.slice(at, at + size)));
    const data = Buffer.from(records);
    expect(offeredProtocols(data)).toEqual(["acme-tls/1"]);
    for (let end = 0; end < data.length; end++) expect(offeredProtocols(data.subarray(0, end))).toBeNull();
  }
});

test.each([
  ["empty", []],
  ["of one byte", [0]],
])("records that are %s do not keep the thread busy, however many there are", (_name, content) => {
  const beginning = record([1, 0, 0x3f, 0]);
  const data = Buffer.from([...beginning, ...Array(3_000).fill(record(content)).flat()]);
  const startedAt = performance.now();
  for (let end = 1; end < data.length; end += 20) offeredProtocols(data.subarray(0, end));
  // It took half a minute when all records were joined again for each one.
  expect(performance.now() - startedAt).toBeLessThan(1_000);
  expect(offeredProtocols(data)).toEqual([]);
});

test("parsing any bytes as a ClientHello or PROXY header ends and does not throw", () => {
  const seeds = [Buffer.from(record(helloMessage)), version2(V6, 1), Buffer.from("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n")];
  const changes = fc.array(fc.tuple(fc.nat(120), fc.nat(255)), { maxLength: 6 });
  fc.assert(
    fc.property(fc.constantFrom(...seeds), changes, fc.nat(120), (seed, changed, end) => {
      const data = Buffer.from(seed);
      for (const [at, value] of changed) data[at % data.length] = value;
      const cut = data.subarray(0, end);
      expect(offeredProtocols(cut)).not.toBeUndefined();
      const header = readProxyHeader(cut);
      if (header === null || header === "wrong") return;
      expect(header.bytes).toBeLessThanOrEqual(cut.length);
      if (header.client === null) return;
      expect(isIP(header.client.address)).toBeGreaterThan(0);
      expect(Number.isInteger(header.client.port)).toBe(true);
    }),
    { numRuns: 20_000, seed: 20_260_402 },
  );
});
