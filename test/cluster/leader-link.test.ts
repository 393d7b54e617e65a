import { afterEach, expect, test } from "bun:test";
import { CHALLENGE_PATH, MemberAuthentication } from "../../src/cluster/member-authentication.ts";
import { forward } from "../../src/cluster/proxy/forwarded-requests.ts";
import {
  BATCH_GREETING,
  encodeLeaderFrame,
  encodeProxyFrame,
  framesOf,
  type LeaderFrame,
  nextBatch,
  PROXY_PATH,
  type ProxyFrame,
} from "../../src/cluster/proxy/frames.ts";
import { LeaderLink, WriteCoalescer } from "../../src/cluster/proxy/leader-link.ts";
import { createKeyring } from "../../src/kernel/crypto/secrets.ts";
import { createLog } from "../../src/kernel/log.ts";
import { BreakableConnection } from "./breakable-connection.ts";
import { SECRET } from "./group.ts";

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** A leader behind a network that can break, and a proxy's link to it. */
async function linked({ takesBatches = true } = {}) {
  const greeting: LeaderFrame = { type: "publish", topic: "news", text: "hello" };
  const authentication: MemberAuthentication = new MemberAuthentication(createKeyring(SECRET), () => line.url);
  const heard: string[] = [];
  const carriedOut: string[] = [];
  const leader = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request, server) {
      const { pathname } = new URL(request.url);
      if (pathname === CHALLENGE_PATH) return authentication.respond(request) ?? new Response(null, { status: 400 });
      if (pathname === PROXY_PATH && authentication.verify(request) === null)
        return new Response(null, { status: 404 });
      if (pathname === PROXY_PATH) return server.upgrade(request) ? undefined : new Response(null, { status: 400 });
      carriedOut.push(`${request.method} ${await request.text()}`.trim());
      return Response.json({ method: request.method, client: request.headers.get("x-stoa-edge-client") });
    },
    websocket: {
      open(ws) {
        if (takesBatches) ws.send(BATCH_GREETING);
        ws.send(encodeLeaderFrame(greeting));
      },
      message: (_ws, message) => void heard.push(String(message)),
    },
  });
  closing.push(() => leader.stop(true));
  const line: BreakableConnection = await BreakableConnection.to(leader.port ?? 0);
  closing.push(() => line.close());
  const known: { leader: string | null } = { leader: null };
  const seen = { opened: 0, lost: 0, frames: [] as LeaderFrame[] };
  const link = new LeaderLink({
    authentication: new MemberAuthentication(createKeyring(SECRET)),
    log: createLog({ level: "silent", format: "json" }),
    leader: async () => known.leader ?? line.url,
    onOpen: () => void seen.opened++,
    onFrame: (frame) => void seen.frames.push(frame),
    onLost: () => void seen.lost++,
  });
  closing.push(() => link.stop());
  while (seen.frames.length === 0) await Bun.sleep(10);
  const ask = (method: string, init: RequestInit = {}) =>
    forward(new Request("http://edge/v1/rooms", { method, ...init }), "203.0.113.7", { link });
  return { line, link, seen, heard, ask, known, carriedOut };
}

test("frames of one tick are sent as one batch, in order, to a leader that takes batches", async () => {
  const frames: ProxyFrame[] = [
    { type: "text", id: 1, text: "a" },
    { type: "pong", id: 2 },
    { type: "open", id: 3, upgradeRequest: { url: "http://x/", headers: [] } },
    { type: "text", id: 1, text: "b" },
    { type: "closed", id: 1, code: 1000 },
  ];
  const encoded = frames.map(encodeProxyFrame);
  for (const takesBatches of [true, false]) {
    const { link, heard } = await linked({ takesBatches });
    for (const frame of frames) expect(link.send(frame)).toBe(true);
    while (heard.flatMap(framesOf).length < frames.length) await Bun.sleep(10);
    const together = [nextBatch(encoded.slice(0, 2), 0).text, encoded[2] ?? "", nextBatch(encoded.slice(3), 0).text];
    expect(heard).toEqual(takesBatches ? together : encoded);
  }
}, 60_000);

test("a batch whose lengths are wrong is refused", () => {
  expect(framesOf("m2 ab0 1 c")).toEqual(["ab", "", "c"]);
  for (const wrong of ["m2", "mx ab", "m-3 ab", "m3 ab", "mNaN ab"]) {
    expect(() => framesOf(wrong)).toThrow("wrong length");
  }
});

const KEYED = { headers: { "idempotency-key": "one", "content-length": "4" }, body: "once" };

test("a proxy notices a leader that stops answering, and repeats what cannot take effect twice", async () => {
  const { line, link, seen, ask, carriedOut } = await linked();
  expect(await (await ask("GET")).json()).toEqual({ method: "GET", client: "203.0.113.7" });
  expect([link.leader, seen.opened, seen.lost]).toEqual([line.url, 1, 0]);
  line.break();
  // All of them are under way when the network breaks.
  const repeated = [ask("GET"), ask("DELETE"), ask("POST", KEYED), ask("PUT", { ...KEYED, body: "put" })];
  const single = ask("POST", { body: "maybe" });
  const long = ask("PUT", { body: "x".repeat(100_000), headers: { "content-length": "100000" } });
  while (seen.lost === 0) await Bun.sleep(10);
  expect(link.leader).toBeNull();
  line.mend();
  for (const unknown of [await single, await long]) {
    expect([unknown.status, unknown.headers.get("retry-after")]).toEqual([503, "1"]);
    expect(await unknown.json()).toMatchObject({ code: "SVC_LEADER_LOST", path: "/v1/rooms" });
  }
  for (const answer of await Promise.all(repeated)) expect(answer.status).toBe(200);
  expect(carriedOut.sort()).toEqual(["DELETE", "GET", "GET", "POST once", "PUT put"]);
  while (seen.frames.length < 2) await Bun.sleep(10);
  expect([link.leader, seen.opened, seen.lost]).toEqual([line.url, 2, 1]);
}, 60_000);

test("requests to a leader that another one replaced end at once", async () => {
  const { line, ask, known } = await linked();
  line.break();
  const from = performance.now();
  const single = ask("POST", { body: "maybe" });
  known.leader = "http://127.0.0.1:1";
  expect((await single).status).toBe(503);
  // The request was answered before the silence of the first leader was noticed.
  expect(performance.now() - from).toBeLessThan(3_500);
}, 60_000);

test("a request is told to try again when no server leads for long", async () => {
  const { line, ask, known, seen } = await linked();
  known.leader = "http://127.0.0.1:1";
  while (seen.lost === 0) await Bun.sleep(10);
  line.close();
  const from = performance.now();
  const refused = await Promise.all([ask("GET"), ask("POST", { body: "never sent" })]);
  for (const response of refused) expect(await response.json()).toMatchObject({ code: "SVC_STANDBY" });
  expect(performance.now() - from).toBeLessThan(8_000);
}, 60_000);

test("the leader's messages are sent at once, or together after a slow fan-out, and always in order", async () => {
  const clock = { ms: 0 };
  const written: string[] = [];
  const coalescer = new WriteCoalescer(
    (text) => {
      written.push(text);
      if (text === "slow") clock.ms += 100;
    },
    () => clock.ms,
  );
  const ticks = async () => {
    for (let tick = 0; tick < 3; tick++) await new Promise((resolve) => setImmediate(resolve));
  };
  coalescer.add("quick");
  expect(written).toEqual(["quick"]);
  coalescer.add("slow");
  expect(written).toEqual(["quick", "slow"]);
  await ticks();
  coalescer.add("a");
  coalescer.add("b");
  expect(written).toHaveLength(2);
  while (written.length < 4) await Bun.sleep(1);
  await ticks();
  // Both of those were quick.
  coalescer.add("c");
  coalescer.add("slow");
  await ticks();
  coalescer.add("d");
  expect(written).toEqual(["quick", "slow", "a", "b", "c", "slow"]);
  coalescer.flush();
  expect(written.at(-1)).toBe("d");
});
