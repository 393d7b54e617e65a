import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { Stoa } from "../../../web/sdk/server.ts";
import { CHROMIUM } from "../media/harness.ts";
import { startServer } from "./server-process.ts";

const README = readFileSync(join(import.meta.dir, "../../../README.md"), "utf8");

test("the page in the README, as it is, makes a call from another origin", async () => {
  const html = /<!-- page -->\n```html\n([\s\S]*?)```/.exec(README)?.[1] ?? "";
  expect(html.trim().split("\n").length).toBeLessThanOrEqual(20);
  const server = await startServer();
  const stoa = new Stoa({ url: server.url, apiKey: server.apiKey });
  const { id } = await stoa.rooms.create({ name: "readme" });
  let visitors = 0;
  const site = Bun.serve({
    port: 0,
    hostname: "localhost",
    async fetch({ url }) {
      if (new URL(url).pathname !== "/join") return new Response(html, { headers: { "content-type": "text/html" } });
      const participantIdentity = `visitor-${++visitors}`;
      return Response.json(await stoa.rtcTokens.mint(id, { participantIdentity, permissions: { publish: true } }));
    },
  });
  const browser = await chromium.launch(CHROMIUM);
  try {
    const context = await browser.newContext({ permissions: ["camera", "microphone"] });
    const pages = [await context.newPage(), await context.newPage()];
    for (const page of pages) {
      await page.goto(site.url.origin);
      await page.click("#join");
    }
    for (const page of pages) {
      await page.bringToFront();
      await page.waitForFunction(
        () => (document.querySelector("video")?.getVideoPlaybackQuality().totalVideoFrames ?? 0) > 10,
        undefined,
        { timeout: 20_000 },
      );
    }
  } finally {
    await browser.close();
    await site.stop(true);
    await server.close();
  }
}, 60_000);
