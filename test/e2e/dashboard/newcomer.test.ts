import { expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Locator, Page } from "playwright-core";
import { PROGRAM, WARM_UP } from "../../cli/stoa.ts";
import { launch } from "./stage.ts";

type DevOutput = { dashboardUrl: string; email: string; password: string };

async function devOutputOf(stdout: ReadableStream<Uint8Array>): Promise<DevOutput> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const part of stdout) {
    text += decoder.decode(part, { stream: true });
    if (text.includes("\n")) break;
  }
  return JSON.parse(text) as DevOutput;
}

/** Resolves when both videos play. */
async function seesBoth(page: Page): Promise<void> {
  await page.waitForFunction(() => {
    const videos = [...document.querySelectorAll<HTMLVideoElement>("[data-identity] video")];
    return videos.length === 2 && videos.every((video) => video.getVideoPlaybackQuality().totalVideoFrames > 5);
  });
}

test("[8] from `stoa dev` to a call between two tabs takes four clicks in the dashboard", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "stoa-newcomer-"));
  const ports = { PORT: "0", MEDIA_UDP_PORT: "0" };
  const settings = { DATA_DIR: dataDir, ...ports, MEDIA_WORKERS: "1", ...WARM_UP, LOG_LEVEL: "error" };
  const server = Bun.spawn([...PROGRAM, "dev", "--json"], {
    cwd: dataDir,
    env: { PATH: process.env.PATH, ...settings },
    stdout: "pipe",
    stderr: "inherit",
  });
  const browser = await launch();
  try {
    const { dashboardUrl, email, password } = await devOutputOf(server.stdout);
    const context = await browser.newContext({ permissions: ["camera", "microphone"] });
    let clicks = 0;
    const click = async (target: Locator) => {
      clicks += 1;
      await target.click();
    };

    const page = await context.newPage();
    await page.goto(dashboardUrl);
    await page.getByLabel("E-mail address").fill(email);
    await page.getByLabel("Password").fill(password);
    await click(page.getByRole("button", { name: "Sign in", exact: true }));
    const opened = context.waitForEvent("page");
    await click(page.getByRole("link", { name: "Open the playground" }));
    const first = await opened;
    await click(first.getByRole("button", { name: "Join", exact: true }));
    await first.locator("[data-identity]").first().waitFor();
    // Another tab with the same address gets a new name.
    const second = await context.newPage();
    await second.goto(`${new URL(dashboardUrl).origin}/playground`);
    await click(second.getByRole("button", { name: "Join", exact: true }));
    await Promise.all([seesBoth(first), seesBoth(second)]);
    expect(clicks).toBeLessThanOrEqual(4);
  } finally {
    await browser.close();
    server.kill("SIGKILL");
    await server.exited;
    rmSync(dataDir, { recursive: true, force: true });
  }
}, 180_000);
