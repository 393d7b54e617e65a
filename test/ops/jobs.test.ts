import { afterAll, expect, test } from "bun:test";
import { createJobs, type Job, startJobs } from "../../src/ops/jobs.ts";
import { settled } from "../harness/rtc.ts";
import { testServer } from "../harness/server.ts";

const server = testServer();
afterAll(server.close);
const { clock, runtime } = server;

async function advance(ms: number): Promise<void> {
  clock.advance(ms);
  await settled();
}

test("each job runs at its own interval and gets the current time", async () => {
  const runs: [string, number][] = [];
  const job = (name: string, everyMs: number): Job => ({ name, everyMs, runDue: (now) => void runs.push([name, now]) });
  const start = clock.now();
  const stop = startJobs([job("slow", 3000), job("fast", 1000)], runtime);
  for (let second = 1; second <= 3; second++) await advance(1000);
  await stop();
  await advance(10_000);
  expect(runs.sort(([a, s], [b, t]) => s - t || a.localeCompare(b))).toEqual([
    ["fast", start + 1000],
    ["fast", start + 2000],
    ["fast", start + 3000],
    ["slow", start + 3000],
  ]);
});

test("a job that fails is logged and tried again, and does not affect others", async () => {
  let failures = 0;
  let others = 0;
  const failing: Job = {
    name: "failing",
    everyMs: 1000,
    runDue() {
      failures += 1;
      throw new Error("no");
    },
  };
  const stop = startJobs([failing, { name: "other", everyMs: 1000, runDue: () => void others++ }], runtime);
  await advance(1000);
  await advance(1000);
  await stop();
  expect([failures, others]).toEqual([2, 2]);
  expect(server.logLines.filter((line) => line.includes('"job":"failing"'))).toHaveLength(2);
});

test("a job is not started while it still runs, and stopping waits for it", async () => {
  const gate = Promise.withResolvers<void>();
  let runs = 0;
  const long: Job = {
    name: "long",
    everyMs: 1000,
    async runDue() {
      runs += 1;
      await gate.promise;
    },
  };
  const stop = startJobs([long], runtime);
  await advance(1000);
  await advance(5000);
  expect(runs).toBe(1);
  let stopped = false;
  const stopping = stop().then(() => (stopped = true));
  await settled();
  expect(stopped).toBe(false);
  gate.resolve();
  await stopping;
});

test("every job of the server has a name of its own and can run on an empty database", async () => {
  const jobs = createJobs(server.runtime, server.services);
  expect(new Set(jobs.map(({ name }) => name)).size).toBe(jobs.length);
  for (const { runDue } of jobs) await runDue(clock.now());
});

test("[1] a response stored for an Idempotency-Key is deleted when its window is over", async () => {
  const { key } = await server.project();
  const headers = { "idempotency-key": "k" };
  await server.call("POST", "/v1/rooms", { key, body: { name: "kept" }, headers });
  const kept = () => runtime.db.$client.query<{ n: number }, []>("SELECT count(*) AS n FROM idempotency_keys").get()?.n;
  const sweep = async () => {
    await createJobs(server.runtime, server.services)
      .find(({ name }) => name === "sweep-credentials")
      ?.runDue(clock.now());
    await runtime.writer.drain();
  };
  clock.advance(24 * 3_600_000 - 1);
  await sweep();
  expect(kept()).toBe(1);
  clock.advance(1);
  await sweep();
  expect(kept()).toBe(0);
});
