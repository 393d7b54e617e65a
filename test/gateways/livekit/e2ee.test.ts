import { afterAll, beforeAll, expect, test } from "bun:test";
import { got, hears, joinLivekit, sees } from "./harness/livekit-page.ts";
import { openStage, type Stage, WAIT_MS } from "./harness/stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 180_000);
afterAll(() => stage.close());

test(
  "livekit-client's encrypted video, audio and data arrive with the same key, and nothing does with another",
  async () => {
    const [ann, ben, eve] = [
      await stage.page("livekit-client"),
      await stage.page("livekit-client"),
      await stage.page("livekit-client"),
    ];
    const join = async (page: typeof ann, identity: string, key: string, publish: boolean) =>
      joinLivekit(page, stage.wsUrl, await stage.token("sealed", identity), { publish, key });
    await join(ann, "ann", "ours", true);
    await join(ben, "ben", "ours", false);
    await join(eve, "eve", "another", false);
    await Promise.all([sees(ben, "ann"), hears(ben, "ann")]);
    await ann.evaluate(() =>
      window.livekit.localParticipant.publishData(new TextEncoder().encode("sealed"), { reliable: true, topic: "t" }),
    );
    await got(ben, "ann t sealed");
    expect(await ben.evaluate(() => window.livekit.remoteParticipants.get("ann").isEncrypted)).toBe(true);

    // It was sent all of it, and could read none.
    await eve.waitForFunction(
      async () => {
        const [publication] = [...window.livekit.remoteParticipants.get("ann").videoTrackPublications.values()];
        const stats = await publication?.track?.receiver?.getStats();
        return [...(stats?.values() ?? [])].some(
          ({ type, framesReceived = 0 }: { type: string; framesReceived?: number }) =>
            type === "inbound-rtp" && framesReceived > 15,
        );
      },
      undefined,
      { timeout: WAIT_MS },
    );
    const shown = await eve.evaluate(() => {
      const video = document.getElementById("ann-camera") as HTMLVideoElement | null;
      return { frames: video?.getVideoPlaybackQuality().totalVideoFrames ?? 0, texts: window.texts };
    });
    expect(shown).toEqual({ frames: 0, texts: [] });
    for (const page of [ann, ben, eve]) await page.context().close();
  },
  4 * WAIT_MS,
);
