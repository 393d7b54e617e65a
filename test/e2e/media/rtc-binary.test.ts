import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { type RunningStoa, startStoa } from "../../cli/stoa.ts";
import { type Api, createApi } from "../../harness/api.ts";
import { buildBinary } from "../binary/binary.ts";
import { describeCall } from "./call-suite.ts";
import { launchBrowser } from "./harness.ts";
import { openStage, type Stage } from "./rtc-harness.ts";

const dataDir = mkdtempSync(join(tmpdir(), "stoa-compiled-"));
let server: RunningStoa;
let api: Api;
let stage: Stage;
let browser: Browser;

beforeAll(async () => {
  const ports = ["--port", "0", "--media-udp-port", "0", "--public-ip", "127.0.0.1"];
  // The tests join more often than the rate limit allows.
  const limits = ["--signaling-max-connections-per-window", "1000"];
  server = await startStoa([await buildBinary(), "dev", "--json", ...ports, ...limits, "--data-dir", dataDir]);
  api = createApi(server.url, JSON.parse(server.out).apiKey);
  [stage, browser] = await Promise.all([openStage(api), launchBrowser()]);
}, 180_000);
afterAll(async () => {
  await browser?.close();
  await stage?.close();
  server?.child.kill("SIGKILL");
  rmSync(dataDir, { recursive: true, force: true });
});

const { call } = describeCall("[4] browsers in a call, through the binary", () => ({ stage, browser, api }));

test("[10] stopping the binary tells participants to reconnect", async () => {
  const { ann, cas } = call();
  server.child.kill("SIGTERM");
  for (const { page } of [ann, cas]) {
    const end = await page.evaluate(async () => [await window.rtc.closing(), window.rtc.pushes.at(-1)]);
    expect(end).toMatchObject([{ code: 4500 }, { type: "bye", reason: "restart", action: "rejoin" }]);
  }
  expect(await server.child.exited).toBe(0);
}, 180_000);
