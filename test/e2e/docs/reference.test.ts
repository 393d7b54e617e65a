import { afterAll, beforeAll, expect, spyOn, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { buildWeb } from "../../../bin/build-web.ts";
import { type RunningServer, start } from "../../../src/server.ts";
import { openChromium } from "../../harness/browsers.ts";
import { testConfig } from "../../harness/test-config.ts";

const ROOT = join(import.meta.dir, "../../..");
const WEB = join(ROOT, "dist/web");
const dataDir = mkdtempSync(join(tmpdir(), "stoa-reference-"));
let server: RunningServer;
let browser: Browser;

beforeAll(async () => {
  if (!existsSync(join(WEB, "api-reference.js.gz"))) await buildWeb(ROOT, WEB);
  server = await start(testConfig({ DATA_DIR: dataDir }));
  browser = await openChromium();
});
afterAll(async () => {
  await browser.close();
  await server.stop("test over", 0);
  rmSync(dataDir, { recursive: true, force: true });
});

test("[10] /docs/api shows the whole reference without requesting other hosts or violating its policy", async () => {
  const page = await browser.newPage();
  const elsewhere: string[] = [];
  const complaints: string[] = [];
  await page.route("**/*", (route) => {
    const url = route.request().url();
    if (url.startsWith(server.url) || /^(?:data|blob):/.test(url)) return route.continue();
    elsewhere.push(url);
    return route.abort();
  });
  page.on("console", (message) => {
    if (message.type() === "error") complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(error.message));

  await page.goto(`${server.url}/docs/api`);
  await page.getByText("Rooms, chat and live streams for your own application.").first().waitFor();
  await page
    .getByRole("link", { name: "audit" })
    .or(page.getByRole("button", { name: "audit" }))
    .first()
    .waitFor();
  await page.waitForLoadState("networkidle");
  expect(elsewhere).toEqual([]);
  expect(complaints).toEqual([]);
});

test("[10] the viewer is served compressed and immutable, and is decompressed at most once", async () => {
  const page = await (await fetch(`${server.url}/docs/api`)).text();
  const path = /src="(\/docs\/viewer\.js\?v=\w+)"/.exec(page)?.[1] ?? "";
  const first = await fetch(server.url + path, { headers: { "accept-encoding": "gzip" }, decompress: false });
  expect(first.headers.get("content-encoding")).toBe("gzip");
  expect(first.headers.get("cache-control")).toContain("immutable");
  expect((await first.bytes()).length).toBeLessThan(1_500_000);
  const etag = first.headers.get("etag") ?? "";
  const again = await fetch(`${server.url}/docs/viewer.js`, { headers: { "if-none-match": etag } });
  expect(again.status).toBe(304);
  expect(again.headers.get("cache-control")).toBe("no-cache");
  const plain = await fetch(`${server.url}/docs/viewer.js`, { headers: { "accept-encoding": "identity" } });
  expect(plain.headers.get("content-encoding")).toBeNull();
  expect((await plain.text()).length).toBeGreaterThan(3_000_000);
  const unpacking = spyOn(Bun, "gunzipSync");
  for (let i = 0; i < 5; i++) {
    await (await fetch(`${server.url}/docs/viewer.js`, { headers: { "accept-encoding": "identity" } })).bytes();
  }
  expect(unpacking).not.toHaveBeenCalled();
  unpacking.mockRestore();
});
