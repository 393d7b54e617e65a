import { afterEach, expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { AcmeStore } from "../../../src/network/acme/store.ts";
import { ANNOUNCED, nextData, secured, type tlsStage, turnOver, until } from "../tls/stage.ts";
import { afterwards, cleanUp, DOMAIN, stageWith } from "./stage.ts";

afterEach(cleanUp);

test.each(["tls-alpn-01", "http-01"] as const)("a first certificate by %s, with rejected nonces", async (challenge) => {
  const { tls, pebble, dataDir, keeper } = await stageWith();
  const renewal = keeper({ challenges: [challenge] });
  expect(renewal.certificate).toBeNull();
  afterwards(renewal.start());
  await until(() => renewal.certificate !== null);
  await tls.multiplexer.stats();
  const socket = await secured(tls.multiplexer.port);
  const shown = socket.getPeerX509Certificate();
  expect(shown?.checkHost(DOMAIN)).toBe(DOMAIN);
  const chain = (renewal.certificate?.cert ?? "").split(/(?<=-----END CERTIFICATE-----\n)/);
  expect(new X509Certificate(chain[0] ?? "").verify(new X509Certificate(chain[1] ?? "").publicKey)).toBe(true);
  expect(new X509Certificate(chain[1] ?? "").verify(new X509Certificate(await pebble.root()).publicKey)).toBe(true);
  for (const name of ["account.json", "key.pem", "certificate.pem"]) {
    expect(statSync(join(dataDir, "acme", name)).mode & 0o777).toBe(0o600);
  }
  // After a restart the certificate is there, and no order is made.
  await pebble.stop();
  const again = keeper();
  expect(again.certificate).toEqual(renewal.certificate);
  expect(again.status.nextAt).toBeGreaterThan(Date.now());
});

test("http-01 succeeds where the authority does not reach port 443", async () => {
  const { keeper } = await stageWith({ wrongPort: true });
  const renewal = keeper({ challenges: ["tls-alpn-01", "http-01"] });
  afterwards(renewal.start());
  await until(() => renewal.certificate !== null);
  expect(renewal.status.problem).toBeNull();
});

test("an authority that requires external accounts gets a binding, and its refusal without one is reported", async () => {
  const external = { keyId: "kid-1", hmac: "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W" };
  const { keeper } = await stageWith({ external });
  const without = keeper({ external: undefined });
  const stop = without.start();
  await until(() => without.status.problem !== null);
  stop();
  expect(without.status.problem).toContain("ACME_EAB_KEY_ID");
  const renewal = keeper({}, () => Date.now() + 120_000);
  afterwards(renewal.start());
  await until(() => renewal.certificate !== null);
}, 60_000);

test("a certificate is renewed at two thirds of its lifetime, under constant handshakes, without closing a connection", async () => {
  const { tls, clock, keeper } = await stageWith();
  // The authority's clock stands still: each is to be renewed a few days later than the one before, as in life.
  let chance = 1;
  const random = () => {
    chance -= 0.04;
    return chance;
  };
  const renewal = keeper({ timers: clock, random });
  afterwards(renewal.start());
  while (renewal.certificate === null) {
    clock.advance(1_000);
    await Bun.sleep(5);
  }
  await tls.multiplexer.stats();
  const open = await secured(tls.multiplexer.port);
  const goingOn = await conversations(tls);
  let handshakes = 0;
  let failed = 0;
  let isOver = false;
  const crowd = Array.from({ length: 2 }, async () => {
    while (!isOver) {
      const socket = await secured(tls.multiplexer.port).catch(() => null);
      if (socket) handshakes++;
      else failed++;
      socket?.destroy();
      await Bun.sleep(20);
    }
  });
  for (let count = 0; count < 5; count++) {
    const before: object | null = renewal.certificate;
    // The authority's clock does not move with ours: what it issues counts from today.
    clock.set(Date.now());
    clock.set((renewal.status.nextAt ?? 0) - 60_000);
    await Bun.sleep(1);
    expect(renewal.certificate).toBe(before as never);
    await goingOn.exchange();
    while (renewal.certificate === before) {
      clock.advance(60_000);
      await Bun.sleep(5);
    }
  }
  isOver = true;
  await Promise.all(crowd);
  await goingOn.exchange();
  expect(goingOn.closed()).toBe(0);
  expect(failed).toBe(0);
  // One at least for each of them.
  expect(handshakes).toBeGreaterThan(5);
  open.write("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
  expect(String(await new Promise((resolve) => open.once("data", resolve)))).toContain("200 OK");
  open.destroy();
}, 120_000);

type Stage = Awaited<ReturnType<typeof tlsStage>>;

/** A WebSocket and a relay, opened once: whatever is said on them comes back for as long as they are open. */
async function conversations({ multiplexer, url }: Stage) {
  let closed = 0;
  const announced = { address: ANNOUNCED, port: 7001 };
  const media = await Bun.udpSocket({
    hostname: "127.0.0.1",
    binaryType: "buffer",
    socket: { data: (socket, data, port, address) => void socket.send(data, port, address) },
  });
  multiplexer.setPeers([{ announced, reached: { address: "127.0.0.1", port: media.port } }]);
  const { client, socket: line } = await turnOver(multiplexer.port, "call");
  line.on("close", () => closed++);
  await client.allocate();
  await client.permit(announced);
  const chat = new WebSocket(`${url.replace("https:", "wss:")}/socket`, {
    tls: { rejectUnauthorized: false },
  } as never);
  chat.addEventListener("close", () => closed++);
  await new Promise((resolve) => chat.addEventListener("open", resolve));
  afterwards(() => {
    chat.close();
    line.destroy();
    media.close();
  });
  return {
    closed: () => closed,
    async exchange() {
      const packet = nextData(client);
      client.send(Buffer.from("media"), announced);
      const message = new Promise<unknown>((resolve) => {
        chat.onmessage = ({ data }) => resolve(data);
      });
      chat.send("chat");
      expect([await packet, await message]).toEqual(["media", "chat"]);
    },
  };
}

function directoryAt(url: string): Record<string, string> {
  const paths = { newNonce: "/nonce", newAccount: "/account", newOrder: "/order", renewalInfo: "/renewal" };
  return Object.fromEntries(Object.entries(paths).map(([name, path]) => [name, new URL(path, url).href]));
}

test("a renewal time is chosen once within the window that the authority suggests, and again when the window moves", async () => {
  const { clock, keeper } = await stageWith();
  const first = keeper();
  const stop = first.start();
  await until(() => first.certificate !== null);
  stop();
  const day = 86_400_000;
  let window: [number, number] = [clock.now() + 10 * day, clock.now() + 12 * day];
  const asked: string[] = [];
  const authority = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch(request) {
      const { pathname } = new URL(request.url);
      if (pathname === "/directory") return Response.json(directoryAt(request.url));
      asked.push(pathname);
      const [start, end] = window.map((at) => new Date(at).toISOString());
      return Response.json({ suggestedWindow: { start, end } }, { headers: { "retry-after": "3600" } });
    },
  });
  afterwards(() => authority.stop(true));
  const directory = new URL("/directory", authority.url).href;
  const renewal = keeper({ directory, ca: undefined, timers: clock });
  afterwards(renewal.start());
  const nextAt = () => renewal.status.nextAt ?? 0;
  await until(() => nextAt() >= window[0] && nextAt() <= window[1]);
  const chosen = nextAt();
  // The identifier of the certificate: the key that signed it, and its number (RFC 9773 §4.1).
  expect(asked[0]).toMatch(/^\/renewal\/[\w-]+\.[\w-]+$/);
  const asks = async (times: number) => {
    while (asked.length < times) {
      clock.advance(600_000);
      await Bun.sleep(5);
    }
  };
  await asks(3);
  expect(nextAt()).toBe(chosen);
  window = [clock.now() + day, clock.now() + 2 * day];
  await asks(5);
  expect(nextAt()).toBeGreaterThanOrEqual(window[0]);
  expect(nextAt()).toBeLessThanOrEqual(window[1]);
}, 60_000);

test("an unreachable authority is retried with growing delays, even after a restart, and the old certificate stays", async () => {
  const { pebble, lines, clock, keeper } = await stageWith();
  const first = keeper();
  const stop = first.start();
  await until(() => first.certificate !== null);
  stop();
  await pebble.stop();

  clock.advance(10 * 365 * 86_400_000);
  const renewal = keeper();
  expect(renewal.certificate).toEqual(first.certificate);
  expect(renewal.status.expiresAt).toBeLessThan(clock.now());
  const waits: number[] = [];
  for (let count = 0; count < 12; count++) {
    // Each is a new process: what it knows of failures it has from the disk.
    const attempt = keeper();
    const before = attempt.status.nextAt;
    const end = attempt.start();
    await until(() => attempt.status.nextAt !== before);
    end();
    waits.push(Math.round(((attempt.status.nextAt ?? 0) - clock.now()) / 60_000));
    expect(attempt.certificate).toEqual(first.certificate);
    clock.advance((attempt.status.nextAt ?? 0) - clock.now());
  }
  expect(waits).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 720, 720]);
  expect(lines.join("")).toContain("keeping the old one");
  expect(renewal.status.problem).toBeNull();
  expect(keeper().status.problem).toContain(`The authority cannot be reached at ${new URL(pebble.directory).host}`);
  expect(renewal.certificate?.key && lines.join("").includes(renewal.certificate.key)).toBe(false);

  await pebble.start();
  // The authority has forgotten the account too: the attempt that finds this out makes the next one register.
  for (;;) {
    const attempt = keeper();
    const before = attempt.status.nextAt;
    const end = attempt.start();
    await until(() => attempt.status.nextAt !== before);
    end();
    if (attempt.certificate?.cert !== first.certificate?.cert) break;
    clock.advance((attempt.status.nextAt ?? 0) - clock.now());
  }
}, 60_000);

test.each([
  ["a page", () => new Response("<html>welcome</html>")],
  ["another kind of list", () => Response.json({ hello: 1 })],
  ["nothing at all", () => Response.json(null)],
])("an address that gives %s is no authority's, and that is said", async (_what, fetch) => {
  const { keeper, lines } = await stageWith();
  const site = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch });
  afterwards(() => site.stop(true));
  const renewal = keeper({ directory: site.url.href, ca: undefined });
  afterwards(renewal.start());
  await until(() => renewal.status.problem !== null);
  const sentence = `${site.url.href} is no directory of an ACME authority. Correct ACME_DIRECTORY.`;
  expect(renewal.status.problem).toBe(sentence);
  expect(lines.join("")).toContain(sentence);
});

test("no certificate is ordered when no challenge can be answered", async () => {
  const { keeper, dataDir } = await stageWith();
  const unable = "ACME_CHALLENGE is http-01, but port 80 cannot be had here.";
  const renewal = keeper({ unableReason: unable });
  afterwards(renewal.start());
  await until(() => renewal.status.problem !== null);
  expect(renewal.status.problem).toBe(unable);
  // No account was made either.
  expect(existsSync(join(dataDir, "acme", "account.json"))).toBe(false);
});

test("a domain that resolves elsewhere is reported before a public authority is asked", async () => {
  const { lines, keeper, dataDir } = await stageWith();
  const sentence = `${DOMAIN} resolves to 192.0.2.1, which is no address of this machine.`;
  const renewal = keeper({ isStrict: true, precheck: async () => sentence });
  const stop = renewal.start();
  await until(() => renewal.status.problem !== null);
  stop();
  expect(renewal.status.problem).toBe(sentence);
  expect(lines.join("")).toContain(sentence);
  expect(new AcmeStore(dataDir).attempt(DOMAIN, "x").failures).toBe(0);
  expect(renewal.certificate).toBeNull();
});

test("port 80 redirects to https and serves only pending proofs", async () => {
  const { port80 } = await stageWith();
  const get = (path: string) => fetch(`http://127.0.0.1:${port80.port}${path}`, { redirect: "manual" });
  const moved = await get("/v1/rooms?limit=1");
  expect([moved.status, moved.headers.get("location")]).toEqual([308, `https://${DOMAIN}/v1/rooms?limit=1`]);
  port80.setProof("token", "token.proof");
  expect(await (await get("/.well-known/acme-challenge/token")).text()).toBe("token.proof");
  port80.setProof("token", null);
  expect((await get("/.well-known/acme-challenge/token")).status).toBe(308);
});
