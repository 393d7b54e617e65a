import { afterAll, expect, test } from "bun:test";
import { every } from "../../../src/kernel/time/timers.ts";
import { createJobs } from "../../../src/ops/jobs.ts";
import { settled } from "../../harness/rtc.ts";
import { testServer } from "../../harness/server.ts";

/** A promise that is rejected and that nobody waits for ends the process; the test runner fails the test for it. */
const server = testServer();
afterAll(server.close);
const { clock, logLines, runtime } = server;

function writable(is: boolean): void {
  runtime.db.$client.run(`PRAGMA query_only = ${is ? "OFF" : "ON"}`);
}

test("[11] while the database is read-only, an API key still reads, and its unsaved use is logged", async () => {
  const { key } = await server.project();
  expect((await server.call("GET", "/v1/project", { key })).status).toBe(200);
  await runtime.writer.drain();
  writable(false);
  clock.advance(10_000);
  expect((await server.call("GET", "/v1/project", { key })).status).toBe(200);
  expect((await server.call("POST", "/v1/rooms", { key, body: { name: "refused" } })).status).toBe(500);
  await settled();
  expect(logLines.join("")).toContain("api key: last use not saved");

  writable(true);
  expect((await server.call("POST", "/v1/rooms", { key, body: { name: "accepted" } })).status).toBe(201);
});

test("[11] a job that cannot write fails, and its next run succeeds", async () => {
  const job = createJobs(server.runtime, server.services).find(({ name }) => name === "sweep-credentials");
  writable(false);
  await expect(job?.runDue(clock.now())).rejects.toThrow(/readonly/);
  await settled();
  writable(true);
  await job?.runDue(clock.now());
});

test("a recurring task continues after an exception and after a rejection", async () => {
  let turns = 0;
  const stop = every(runtime, 1_000, () => {
    turns += 1;
    if (turns === 1) throw new Error("first turn");
    return turns === 2 ? Promise.reject(new Error("second turn")) : undefined;
  });
  for (let turn = 0; turn < 3; turn++) {
    clock.advance(1_000);
    await settled();
  }
  stop();
  clock.advance(10_000);
  expect(turns).toBe(3);
  expect(logLines.filter((line) => line.includes("timers: recurring task failed"))).toHaveLength(2);
});
