/** Calls of real browsers behind networks that let out nothing but tcp 443, or only a proxy. */
import { joinRoom } from "../../e2e/sdk/page-api.ts";
import type { Scripted } from "../../e2e/sdk/scripted.ts";
import { type Behind, type BrowserName, openOnePort } from "../../ops/one-port.ts";
import type { Measured } from "../harness/report.ts";

const FRAMES_TIMEOUT_MS = 60_000;

/** From the start of the page's navigation to the first video frame of another participant. */
async function picturedAfterMs(page: Scripted, id: string): Promise<number> {
  await page.waitForFunction(
    (id) => {
      const element = document.getElementById(id) as (HTMLVideoElement & { mozPaintedFrames?: number }) | null;
      if (!element) return false;
      return Math.max(element.getVideoPlaybackQuality().totalVideoFrames, element.mozPaintedFrames ?? 0) > 0;
    },
    id,
    { timeout: FRAMES_TIMEOUT_MS, polling: 50 },
  );
  return page.evaluate(() => performance.now(), undefined);
}

export async function pageToPicture(): Promise<Measured[]> {
  const stage = await openOnePort();
  const figures: Measured[] = [];
  try {
    const { id: roomId } = await stage.stoa.rooms.create({ name: "page-to-picture" });
    const mint = (participantIdentity: string) =>
      stage.stoa.rtcTokens.mint(roomId, { participantIdentity, permissions: { publish: true } });
    await joinRoom(await stage.page("chromium", "narrow"), await mint("anna"), ["camera", "microphone"], 360, 30);
    for (const behind of ["narrow", "proxied"] as Behind[]) {
      for (const browser of ["chromium", "firefox"] as BrowserName[]) {
        // The first page of a browser pays for its start; a user's is running.
        await stage.page(browser, behind);
        const page = await stage.page(browser, behind);
        await joinRoom(page, await mint(`${browser}-${behind}`), ["camera", "microphone"], 360, 30);
        const value = (await picturedAfterMs(page, "anna-camera")) / 1_000;
        figures.push({ what: `${browser}, ${behind}: page to picture`, value, unit: "s", goal: { atMost: 10 } });
        await page.evaluate(() => window.room.close(), undefined);
      }
    }
  } finally {
    await stage.close();
  }
  return figures;
}
