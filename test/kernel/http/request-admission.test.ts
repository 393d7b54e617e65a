import { heapStats } from "bun:jsc";
import { expect, test } from "bun:test";
import { connect } from "node:net";
import { Elysia } from "elysia";
import { UNREAD_BODIES } from "../../../src/kernel/http/body.ts";
import {
  admitRequests,
  createRequestAdmission,
  overloadError,
} from "../../../src/kernel/http/serving/request-admission.ts";

const FROM = "x-from";

/** Requests that each take a millisecond of a clock that only they move; `loop` is one turn of the loop. */
function createCrowd(inProgress = 100) {
  let nowMs = 0;
  let scheduled: (() => void)[] = [];
  const admit = createRequestAdmission({
    requestsInProgress: () => inProgress,
    addressOf: (request) => request.headers.get(FROM) ?? "",
    clock: () => nowMs,
    nextTick: (run) => scheduled.push(run),
  });
  const served: string[] = [];
  const refused: string[] = [];
  const serve = (name: string, tookMs: number) => {
    served.push(name);
    nowMs += tookMs;
  };
  return {
    served,
    refused,
    ask(name: string, from = name, path = "/v1/rooms", tookMs = 1, bytes = 0): void {
      const headers = { [FROM]: from, ...(bytes > 0 && { "content-length": String(bytes) }) };
      const request = new Request(`http://stoa.test${path}`, { method: "POST", headers });
      const admitted = admit(request);
      if (overloadError(request)) return void refused.push(name);
      if (admitted) void admitted.then(() => serve(name, tookMs));
      else serve(name, tookMs);
    },
    async loop(): Promise<number> {
      const before = served.length;
      const due = scheduled;
      scheduled = [];
      for (const run of due) {
        run();
        // The real loop also runs what was awaited before the next of its callbacks.
        for (let n = 0; n < 3; n++) await Promise.resolve();
      }
      return served.length - before;
    },
    get isIdle(): boolean {
      return scheduled.length === 0;
    },
  };
}

test("[17] of a hundred simultaneous requests, each event-loop tick starts only those that fit its time slice, in order", async () => {
  const { ask, served, loop } = createCrowd();
  for (let n = 0; n < 100; n++) ask(String(n), "mallory");
  expect(served.length).toBeLessThan(5);
  let turns = 0;
  while (served.length < 100) {
    expect(await loop()).toBeLessThan(5);
    turns += 1;
    expect(turns).toBeLessThan(100);
  }
  expect(served).toEqual(Array.from({ length: 100 }, (_, n) => String(n)));
});

test("[17] a client with one request does not wait for a client with a hundred", async () => {
  const { ask, served, loop } = createCrowd();
  for (let n = 0; n < 100; n++) ask(`mallory ${n}`, "mallory");
  ask("ann");
  ask("ben");
  await loop();
  await loop();
  expect(served).toContain("ann");
  expect(served).toContain("ben");
  expect(served.length).toBeLessThan(10);
});

test("[17] health checks never wait", () => {
  const { ask, served } = createCrowd();
  for (let n = 0; n < 100; n++) ask(String(n), "mallory");
  ask("health", "mallory", "/healthz");
  ask("ready", "mallory", "/readyz?verbose=1");
  ask("arrival", "mallory", "/healthz/arrival");
  ask("no health", "mallory", "/v1/rooms?next=/healthz");
  expect(served.slice(-2)).toEqual(["health", "ready"]);
});

test("[17] a request that takes longer than a time slice begins, and the next one in the next tick", async () => {
  const { ask, served, loop } = createCrowd();
  const names = ["a", "b", "c", "d", "e", "f", "g"];
  for (const name of names) ask(name, name, "/v1/rooms", 50);
  expect(served).toEqual(["a", "b", "c", "d"]);
  await loop();
  for (let turn = 0; turn < 3; turn++) expect(await loop()).toBe(1);
  expect(served).toEqual(names);
});

test("[17] few requests never wait, and no callback is scheduled for them", () => {
  const few = createCrowd(4);
  for (let n = 0; n < 50; n++) few.ask(String(n));
  expect(few.served).toHaveLength(50);
  expect(few.isIdle).toBe(true);
});

test("[17] after a burst no callback is scheduled any more, and the next request begins at once", async () => {
  const { ask, served, loop, ...state } = createCrowd();
  for (let n = 0; n < 20; n++) ask(String(n));
  for (let turn = 0; turn < 20; turn++) await loop();
  expect(served).toHaveLength(20);
  expect(state.isIdle).toBe(true);
  ask("next");
  expect(served.at(-1)).toBe("next");
});

test("[17] requests beyond the length of the queue begin at once", () => {
  const { ask, served } = createCrowd();
  for (let n = 0; n < 2_100; n++) ask(String(n));
  expect(served.length).toBeGreaterThan(50);
  expect(served.length).toBeLessThan(60);
});

test("[17] eight MiB of large bodies wait per address and 64 MiB in total; further ones are refused, small ones are not", async () => {
  const { ask, served, refused, loop } = createCrowd();
  const MIB = 1024 * 1024;
  const upload = (name: string, from: string, bytes = MIB) => ask(name, from, "/v1/rooms", 1, bytes);
  for (let n = 0; n < 4; n++) ask(`first ${n}`);
  for (let n = 0; n < 8; n++) upload(`mallory ${n}`, "mallory");
  expect(refused).toEqual([]);
  upload("mallory 8", "mallory");
  upload("mallory small", "mallory", 16 * 1024);
  expect(refused).toEqual(["mallory 8"]);
  for (let n = 0; n < 56; n++) upload(`other ${n}`, `other ${n}`, 500 * MIB);
  expect(refused).toEqual(["mallory 8"]);
  upload("one more", "one more");
  ask("asks", "asks");
  expect(refused).toEqual(["mallory 8", "one more"]);
  while (served.length < 70) expect(await loop()).toBeLessThan(5);
  expect(served).toContain("asks");
  for (let turn = 0; turn < 20; turn++) await loop();
  for (let n = 0; n < 12; n++) upload(`later ${n}`, "mallory");
  expect(refused).toHaveLength(2);
});

test("[17] the unread body of a refused request is released with its response, for every method", async () => {
  const app = new Elysia({ adapter: UNREAD_BODIES })
    .post("/refused", ({ status }) => status(401, "who?"), { parse: "json" })
    .delete("/refused", ({ status }) => status(401, "who?"), { parse: "json" });
  const arrived: (() => void)[] = [];
  let waited = 0;
  admitRequests(
    app,
    () =>
      new Promise((begin) => {
        waited += 1;
        arrived.push(begin);
      }),
  );
  app.listen({ port: 0, hostname: "127.0.0.1" });
  try {
    for (const method of ["POST", "DELETE"]) {
      // Garbage of earlier tests that is collected meanwhile would hide what these requests hold.
      Bun.gc(true);
      const before = largeBlocksMiB();
      const asking = Array.from({ length: 20 }, () => rawRequest(app.server?.port ?? 0, method, BODY));
      // The requests begin once most of their bodies has been read.
      while (largeBlocksMiB() < before + 10) await Bun.sleep(10);
      while (waited < 20) await Bun.sleep(10);
      for (const begin of arrived.splice(0)) begin();
      for (const answer of await Promise.all(asking)) expect(answer).toStartWith("HTTP/1.1 401");
      expect(largeBlocksMiB()).toBeLessThan(before + 3);
      waited = 0;
    }
  } finally {
    await app.stop(true);
  }
});

test("[17] requests with bodies, errors and upgrades have the same result when they had to wait", async () => {
  let waited = 0;
  const app = new Elysia()
    .post("/echo/:name", ({ params, body }) => ({ name: params.name, body }))
    .get("/broken", () => {
      throw new Error("broken");
    })
    .ws("/socket", { message: (socket, said) => void socket.send(said) });
  admitRequests(app, () => {
    waited += 1;
    return new Promise((begin) => setImmediate(begin));
  });
  app.listen({ port: 0, hostname: "127.0.0.1" });
  const url = `http://127.0.0.1:${app.server?.port}`;
  try {
    const body = JSON.stringify({ text: "x".repeat(100_000) });
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`${url}/echo/ann`, { method: "POST", headers, body });
    expect(await answer.json()).toEqual({ name: "ann", body: JSON.parse(body) });
    expect((await fetch(`${url}/broken`)).status).toBe(500);
    expect((await fetch(`${url}/nowhere`)).status).toBe(404);
    const socket = new WebSocket(`${url.replace("http", "ws")}/socket`);
    const said = new Promise<string>((heard, failed) => {
      socket.onopen = () => socket.send("hello");
      socket.onmessage = ({ data }) => heard(String(data));
      socket.onerror = () => failed(new Error("the socket failed"));
    });
    expect(await said).toBe("hello");
    socket.close();
    expect(waited).toBe(4);
  } finally {
    await app.stop(true);
  }
});

const BODY = Buffer.alloc(1_000_000, "[");

/** Resolves with the head of the answer. */
function rawRequest(port: number, method: string, body: Buffer): Promise<string> {
  return new Promise((answered, failed) => {
    const socket = connect(port, "127.0.0.1");
    socket.on("error", failed);
    socket.on("data", (data) => {
      answered(data.toString());
      socket.destroy();
    });
    socket.write(`${method} /refused HTTP/1.1\r\nhost: stoa.test\r\ncontent-length: ${body.length}\r\n\r\n`);
    socket.write(body);
  });
}

type Dump = { mimallocDump: { heaps: { pages: { block_size: number; used: number }[] }[] } };

/** The memory that the runtime holds in blocks of at least a quarter of a mebibyte. */
function largeBlocksMiB(): number {
  const { mimallocDump } = (heapStats as unknown as (options: { dump: true }) => Dump)({ dump: true });
  const pages = mimallocDump.heaps.flatMap((heap) => heap.pages).filter((page) => page.block_size >= 262_144);
  return pages.reduce((sum, page) => sum + page.used * page.block_size, 0) / 1_048_576;
}
