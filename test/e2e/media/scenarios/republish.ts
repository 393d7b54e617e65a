import { expect } from "bun:test";
import type { Call } from "../rtc-harness.ts";

/** A screen is unpublished and another is published on the same section; the viewer also reuses its section. */
export async function republishes({ ann, ben }: Call): Promise<void> {
  const share = () =>
    ann.page.evaluate(async () => {
      await window.rtc.shareScreen();
      await window.rtc.offer();
      return window.rtc.pc.getTransceivers().length;
    });
  const watch = () =>
    ben.page.evaluate(async () => {
      const section = await window.rtc.watchTrack("ann", "video", "screenShare");
      await window.rtc.moreFrames(section.mid, 5);
      return section;
    });
  const unshare = async (trackId: string) => {
    await ann.page.evaluate(() => window.rtc.unpublish("screenShare"));
    await ben.page.evaluate((id) => window.rtc.push("track.unpublished", { identity: "ann", trackId: id }), trackId);
  };
  const sections = await share();
  let shown = await watch();
  for (let round = 0; round < 3; round++) {
    await unshare(shown.trackId);
    expect(await share()).toBe(sections);
    const again = await watch();
    expect(again.mid).toBe(shown.mid);
    expect(again.trackId).not.toBe(shown.trackId);
    shown = again;
  }
  await unshare(shown.trackId);
}
