import { expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { openChromium } from "../../harness/browsers.ts";
import { blockFor } from "../../web/docs/blocks.ts";
import { startServer } from "./server-process.ts";

const framesOf = (page: Page) =>
  page.evaluate(() =>
    [...document.querySelectorAll("video")].map((one) => one.getVideoPlaybackQuality().totalVideoFrames),
  );

test("the README's three code blocks make a call with chat and its history from another origin", async () => {
  const stoa = await startServer();
  const folder = mkdtempSync(join(tmpdir(), "stoa-readme-"));
  // Only the port is changed, because 7000 may be in use.
  const install = blockFor("README.md", "install").replace("http://127.0.0.1:7000", stoa.url);
  const installing = Bun.spawn(["sh", "-c", install], { cwd: folder, stdout: "ignore", stderr: "pipe" });
  const complaint = await new Response(installing.stderr).text();
  expect([await installing.exited, complaint]).toEqual([0, expect.not.stringContaining("npm error")]);
  for (const file of ["join.mjs", "call.html"]) writeFileSync(join(folder, file), blockFor("README.md", file));
  const backend = Bun.spawn(["node", "join.mjs"], {
    cwd: folder,
    env: { PATH: process.env.PATH, STOA_URL: stoa.url, STOA_API_KEY: stoa.apiKey, PORT: "0" },
    stdout: "pipe",
  });
  const browser = await openChromium();
  try {
    const site = await firstLine(backend.stdout);
    expect(new URL(site).origin).not.toBe(new URL(stoa.url).origin);
    const enter = async (user: string) => {
      const context = await browser.newContext({ permissions: ["camera", "microphone"] });
      const page = await context.newPage();
      await page.goto(site);
      await page.fill("#enter input", user);
      await page.click("#enter button");
      await page.waitForSelector("#write:not([hidden])");
      return page;
    };
    const say = async (page: Page, text: string) => {
      await page.fill("#write input", text);
      await page.click("#write button");
    };
    const ada = await enter("ada");
    await say(ada, "said before grace came");
    await ada.getByText("ada: said before grace came").waitFor();
    const grace = await enter("grace");
    await grace.getByText("ada: said before grace came").waitFor();
    await say(grace, "hello");
    await ada.getByText("grace: hello").waitFor();
    for (const page of [ada, grace]) {
      await page.bringToFront();
      await page.waitForFunction(
        () =>
          [...document.querySelectorAll("video")].filter((one) => one.getVideoPlaybackQuality().totalVideoFrames > 10)
            .length === 2,
        undefined,
        { timeout: 60_000 },
      );
      expect((await framesOf(page)).length).toBe(2);
    }
  } finally {
    await browser.close();
    backend.kill("SIGKILL");
    await backend.exited;
    await stoa.close();
    rmSync(folder, { recursive: true });
  }
}, 180_000);

async function firstLine(stream: ReadableStream<Uint8Array>): Promise<string> {
  let text = "";
  for await (const chunk of stream) {
    text += new TextDecoder().decode(chunk);
    if (text.includes("\n")) break;
  }
  return text.trim();
}
