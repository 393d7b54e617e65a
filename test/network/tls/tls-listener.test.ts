import { afterAll, beforeAll, expect, test } from "bun:test";
import { connect } from "node:net";
import { closed, secured, tlsStage, until } from "./stage.ts";

let stage: Awaited<ReturnType<typeof tlsStage>>;
beforeAll(async () => {
  stage = await tlsStage();
});
afterAll(() => stage.close());

test("HTTP is forwarded, and the server knows the client's address and port", async () => {
  const socket = await stage.tls();
  const port = socket.localPort;
  socket.write("GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
  let text = "";
  socket.on("data", (data: Buffer) => {
    text += data.toString();
  });
  await closed(socket);
  expect(text).toContain("200 OK");
  expect(text).toContain(JSON.stringify({ client: { address: "127.0.0.1", port } }));
});

test("the first byte decides the protocol, whatever ALPN a client offers", async () => {
  for (const alpn of [undefined, ["http/1.1"], ["h2", "http/1.1"]]) {
    const socket = await secured(stage.multiplexer.port, alpn);
    socket.write("GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let text = "";
    socket.on("data", (data: Buffer) => {
      text += data.toString();
    });
    await closed(socket);
    expect(text).toStartWith("HTTP/1.1 200");
  }
});

test("new connections get a renewed certificate, and open ones stay", async () => {
  const before = await stage.tls();
  expect(before.getPeerCertificate().subject.CN).toBe("first");
  stage.multiplexer.setCertificate(await stage.pem("second"));
  await stage.multiplexer.stats();
  const after = await stage.tls();
  expect(after.getPeerCertificate().subject.CN).toBe("second");
  before.write("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
  expect(String(await new Promise((resolve) => before.once("data", resolve)))).toContain("200 OK");
  before.destroy();
  after.destroy();
});

test("closed connections leave no entry behind", async () => {
  const sockets = await Promise.all(Array.from({ length: 20 }, () => stage.tls()));
  for (const socket of sockets) socket.write("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
  await Promise.all(sockets.map((socket) => new Promise((resolve) => socket.once("data", resolve))));
  expect((await stage.multiplexer.stats()).httpConnections).toBeGreaterThanOrEqual(20);
  for (const socket of sockets) socket.destroy();
  await until(async () => (await stage.multiplexer.stats()).httpConnections === 0);
  const slots = Array.from({ length: 65_536 }, (_none, port) => stage.tables.tcp.has(port)).filter(Boolean);
  expect(slots.length).toBe(0);
});

test("silent, half-open and idle TLS connections are closed in time, and one address may have few of them", async () => {
  const strict = await tlsStage({ limits: { patienceMs: 200, waitingPerAddress: 3 } });
  try {
    const silent = connect(strict.multiplexer.port, "127.0.0.1");
    const half = connect(strict.multiplexer.port, "127.0.0.1", () => half.write(Buffer.from([0x16, 3, 1, 2, 0, 1])));
    const wordless = await secured(strict.multiplexer.port);
    const spoken = closed(wordless);
    await Promise.all([closed(silent), closed(half), spoken]);
    const crowd = Array.from({ length: 10 }, () => connect(strict.multiplexer.port, "127.0.0.1"));
    for (const socket of crowd) socket.on("error", () => {});
    await Promise.all(crowd.map(closed));
    const stats = await strict.multiplexer.stats();
    expect(stats).toMatchObject({ refused: 7, late: 6, waiting: 0 });
  } finally {
    await strict.close();
  }
});

test("without a certificate every connection is refused", async () => {
  const closedStage = await tlsStage({ certificate: null });
  try {
    await expect(secured(closedStage.multiplexer.port)).rejects.toThrow();
  } finally {
    await closedStage.close();
  }
});

test("bytes that are not TLS are refused at once", async () => {
  const socket = connect(stage.multiplexer.port, "127.0.0.1", () => socket.write("GET / HTTP/1.1\r\n\r\n"));
  socket.on("error", () => {});
  await closed(socket);
});
