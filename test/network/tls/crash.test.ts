import { afterEach, expect, test } from "bun:test";
import { createLog } from "../../../src/kernel/log.ts";
import { createClientTables, TlsMultiplexer } from "../../../src/network/tls/tls-multiplexer.ts";
import { ANNOUNCED, closed, nextData, secured, tlsStage, turnOver, until } from "./stage.ts";

const MEDIA = { address: ANNOUNCED, port: 7001 };
const cleanup: (() => unknown)[] = [];

afterEach(async () => {
  for (const clean of cleanup.splice(0).reverse()) await clean();
});

/** Every thread that is started from now on. */
function threadsFromNowOn(): Worker[] {
  const threads: Worker[] = [];
  const { Worker: Original } = globalThis;
  globalThis.Worker = class extends Original {
    constructor(...given: ConstructorParameters<typeof Original>) {
      super(...given);
      threads.push(this);
    }
  } as typeof Original;
  cleanup.push(() => {
    globalThis.Worker = Original;
  });
  return threads;
}

test("a crashed thread restarts on the same port with all its settings, and clients reconnect", async () => {
  const threads = threadsFromNowOn();
  const stage = await tlsStage({ overLoopback: true });
  cleanup.push(() => stage.close());
  const media = await Bun.udpSocket({
    hostname: "127.0.0.1",
    binaryType: "buffer",
    socket: { data: (socket, data, port, address) => void socket.send(data, port, address) },
  });
  cleanup.push(() => media.close());
  const { multiplexer, tables } = stage;
  multiplexer.setPeers([{ announced: MEDIA, reached: { address: "127.0.0.1", port: media.port } }]);
  multiplexer.revokeRelays("revoked", Date.now() + 600_000);
  const renewed = await stage.pem("renewed");
  multiplexer.setCertificate(renewed);
  const { port } = multiplexer;
  const open = await secured(port);
  open.on("error", () => {});
  open.write("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
  await new Promise((resolve) => open.once("data", resolve));

  const gone = closed(open);
  threads[0]?.terminate();
  await gone;
  await until(async () => threads.length === 2 && (await stage.get("/").catch(() => null))?.status === 200);
  expect(multiplexer.port).toBe(port);
  const again = await secured(port);
  expect(again.getPeerX509Certificate()?.toString()).toBe(renewed.cert);
  again.destroy();

  const { client, socket } = await turnOver(port, "session");
  await client.allocate();
  await client.permit(MEDIA);
  const answer = nextData(client);
  client.send(Buffer.from("still there"), MEDIA);
  expect(await answer).toBe("still there");
  const revoked = await turnOver(port, "revoked");
  await expect(revoked.client.allocate()).rejects.toThrow("credentials");
  for (const one of [socket, revoked.socket]) one.destroy();
  // Nothing of the dead thread's connections is left in the tables.
  await until(() => !Array.from({ length: 65_536 }, (_none, slot) => tables.tcp.has(slot)).some(Boolean));
});

test("requests and settings during a restart of the thread reach the next thread", async () => {
  const threads = threadsFromNowOn();
  const stage = await tlsStage();
  cleanup.push(() => stage.close());
  const { multiplexer } = stage;
  const [renewed, proof] = await Promise.all([stage.pem("renewed"), stage.pem("challenge")]);
  const [first] = threads;
  const ended = new Promise((resolve) => first?.addEventListener("close", resolve));
  first?.terminate();
  await ended;
  // No thread listens now, and the challenge must still be shown in the end.
  const shown = multiplexer.setChallenge(proof);
  const asked = multiplexer.stats();
  multiplexer.setCertificate(renewed);
  await Promise.all([shown, asked]);
  expect(threads.length).toBe(2);
  const usual = await secured(multiplexer.port);
  expect(usual.getPeerX509Certificate()?.toString()).toBe(renewed.cert);
  const authority = await secured(multiplexer.port, ["acme-tls/1"]);
  expect(authority.getPeerX509Certificate()?.toString()).toBe(proof.cert);
  for (const socket of [usual, authority]) socket.destroy();
  multiplexer.close();
  await expect(multiplexer.stats()).rejects.toThrow("the TLS thread has ended");
});

test("a thread that crashes while it loads its code is replaced, and its successor listens", async () => {
  const threads = threadsFromNowOn();
  const multiplexer = new TlsMultiplexer(createClientTables(), createLog({ level: "silent", format: "json" }));
  cleanup.push(() => multiplexer.close());
  threads[0]?.terminate();
  await until(async () => threads.length === 2);
  await multiplexer.listen({
    hostname: "127.0.0.1",
    port: 0,
    upstream: { hostname: "127.0.0.1", port: 1 },
    certificate: null,
    trustedProxies: [],
    turn: null,
  });
  expect(multiplexer.port).toBeGreaterThan(0);
});
