import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { launchBrowser } from "../browser/media/harness.ts";
import { openStage } from "../browser/media/rtc-harness.ts";
import { threeForHalfAMinute } from "../browser/media/three.ts";
import { type RunningStoa, startStoa } from "../cli/stoa.ts";
import { type Api, createApi } from "../harness/api.ts";
import { buildBinary } from "./binary.ts";

const dataDir = mkdtempSync(join(tmpdir(), "stoa-compiled-"));
let server: RunningStoa;
let api: Api;
let browser: Browser;

beforeAll(async () => {
  const ports = ["--port", "0", "--media-udp-port", "0", "--public-ip", "127.0.0.1"];
  server = await startStoa([await buildBinary(), "dev", "--json", ...ports, "--data-dir", dataDir]);
  api = createApi(server.url, JSON.parse(server.out).apiKey);
  browser = await launchBrowser();
}, 180_000);
afterAll(async () => {
  await browser?.close();
  server?.child.kill("SIGKILL");
  rmSync(dataDir, { recursive: true, force: true });
});

test("[4] three browsers see and hear each other for half a minute through the binary, and its end tells them so", async () => {
  const stage = await openStage(api);
  const roomId = await api.room();
  const pages = await threeForHalfAMinute(stage, browser, api, roomId);
  server.child.kill("SIGTERM");
  for (const page of pages) {
    const end = await page.evaluate(async () => [await window.rtc.closing(), window.rtc.pushes.at(-1)]);
    expect(end).toMatchObject([{ code: 4500 }, { type: "bye", reason: "restart", action: "rejoin" }]);
  }
  expect(await server.child.exited).toBe(0);
  await stage.close();
}, 120_000);
