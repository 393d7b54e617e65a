import { afterEach, expect, test } from "bun:test";
import { bundled, GREETING, unbundled } from "../../src/cluster/edge/bundles.ts";
import { EDGE_PATH } from "../../src/cluster/edge/carried-client.ts";
import { forward } from "../../src/cluster/edge/forward.ts";
import { type EdgeFrame, encodeEdgeFrame, encodeLeaderFrame, type LeaderFrame } from "../../src/cluster/edge/frames.ts";
import { Gathering } from "../../src/cluster/edge/gathering.ts";
import { LeaderLink } from "../../src/cluster/edge/leader-link.ts";
import { createLog } from "../../src/kernel/log.ts";
import { Line } from "./line.ts";

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** A leader that greets, at the end of a line that can break, and an edge's link to it. */
async function linked({ takesBundles = true } = {}) {
  const greeting: LeaderFrame = { type: "publish", topic: "news", text: "hello" };
  const heard: string[] = [];
  const leader = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch(request, server) {
      const { pathname } = new URL(request.url);
      if (pathname === EDGE_PATH) return server.upgrade(request) ? undefined : new Response(null, { status: 400 });
      return Response.json({ method: request.method, client: request.headers.get("x-stoa-edge-client") });
    },
    websocket: {
      open(ws) {
        if (takesBundles) ws.send(GREETING);
        ws.send(encodeLeaderFrame(greeting));
      },
      message: (_ws, message) => void heard.push(String(message)),
    },
  });
  closing.push(() => leader.stop(true));
  const line = await Line.to(leader.port ?? 0);
  closing.push(() => line.close());
  const seen = { opened: 0, lost: 0, frames: [] as LeaderFrame[] };
  const link = new LeaderLink({
    credential: "secret",
    log: createLog({ level: "silent", format: "json" }),
    leader: async () => line.url,
    onOpen: () => void seen.opened++,
    onFrame: (frame) => void seen.frames.push(frame),
    onLost: () => void seen.lost++,
  });
  closing.push(() => link.stop());
  while (seen.frames.length === 0) await Bun.sleep(10);
  const ask = (method: string) =>
    forward(new Request("http://edge/v1/rooms", { method }), "203.0.113.7", { link, credential: "secret" });
  return { line, link, seen, heard, ask };
}

test("what clients say at once goes as one to a leader that takes it so, and in order", async () => {
  const frames: EdgeFrame[] = [
    { type: "text", id: 1, text: "a" },
    { type: "pong", id: 2 },
    { type: "open", id: 3, arrival: { url: "http://x/", headers: [] } },
    { type: "text", id: 1, text: "b" },
    { type: "closed", id: 1, code: 1000 },
  ];
  const encoded = frames.map(encodeEdgeFrame);
  for (const takesBundles of [true, false]) {
    const { link, heard } = await linked({ takesBundles });
    for (const frame of frames) expect(link.say(frame)).toBe(true);
    while (heard.flatMap(unbundled).length < frames.length) await Bun.sleep(10);
    const together = [bundled(encoded.slice(0, 2), 0).text, encoded[2] ?? "", bundled(encoded.slice(3), 0).text];
    expect(heard).toEqual(takesBundles ? together : encoded);
  }
}, 60_000);

test("a bundle whose lengths are wrong is refused", () => {
  expect(unbundled("m2 ab0 1 c")).toEqual(["ab", "", "c"]);
  for (const wrong of ["m2", "mx ab", "m-3 ab", "m3 ab", "mNaN ab"]) {
    expect(() => unbundled(wrong)).toThrow("ends in the middle");
  }
});

test("an edge notices a leader that says nothing any more, and finds it again", async () => {
  const { line, link, seen, ask } = await linked();
  expect(await (await ask("GET"))?.json()).toEqual({ method: "GET", client: "203.0.113.7" });
  expect([link.leader, seen.opened, seen.lost]).toEqual([line.url, 1, 0]);
  line.break();
  // Under way when the network goes: what only reads is asked again, what may have been done is not.
  const [read, written] = [ask("GET"), ask("POST")];
  while (seen.lost === 0) await Bun.sleep(10);
  expect(link.leader).toBeNull();
  line.mend();
  expect(await written).toBeNull();
  expect(await (await read)?.json()).toMatchObject({ method: "GET" });
  while (seen.frames.length < 2) await Bun.sleep(10);
  expect([link.leader, seen.opened, seen.lost]).toEqual([line.url, 2, 1]);
}, 60_000);

test("what the leader says waits for company only after fanning out took long, and stays in order", async () => {
  const clock = { ms: 0 };
  const taken: string[] = [];
  const gathering = new Gathering(
    (text) => {
      taken.push(text);
      if (text === "slow") clock.ms += 100;
    },
    () => clock.ms,
  );
  const turns = async () => {
    for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
  };
  gathering.add("quick");
  expect(taken).toEqual(["quick"]);
  gathering.add("slow");
  expect(taken).toEqual(["quick", "slow"]);
  await turns();
  gathering.add("a");
  gathering.add("b");
  expect(taken).toHaveLength(2);
  while (taken.length < 4) await Bun.sleep(1);
  await turns();
  // Those two were quick.
  gathering.add("c");
  gathering.add("slow");
  await turns();
  gathering.add("d");
  expect(taken).toEqual(["quick", "slow", "a", "b", "c", "slow"]);
  gathering.takeAll();
  expect(taken.at(-1)).toBe("d");
});
