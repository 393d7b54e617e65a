import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Firefox, openFirefox } from "../../e2e/sdk/firefox.ts";
import type { Scripted } from "../../e2e/sdk/scripted.ts";
import { got, happened, hears, isGone, joinLivekit, sees } from "./harness/livekit-page.ts";
import { type LivekitPackage, openStage, type Stage, WAIT_MS } from "./harness/stage.ts";

let stage: Stage;
let firefox: Firefox;
beforeAll(async () => {
  [stage, firefox] = await Promise.all([openStage(), openFirefox()]);
}, 180_000);
afterAll(() => Promise.all([firefox?.close(), stage?.close()]));

for (const script of ["livekit-client", "livekit-client-two-connections"] satisfies LivekitPackage[]) {
  test(
    `${script} in Firefox exchanges media with livekit-client in Chromium, even after its camera is published again`,
    async () => {
      const room = `fox-${script}`;
      const ben = await stage.page("livekit-client");
      const fox: Scripted = await firefox.page(stage.addressOf(script));
      await joinLivekit(ben, stage.wsUrl, await stage.token(room, "ben"));
      await joinLivekit(fox, stage.wsUrl, await stage.token(room, "fox"));
      await Promise.all([sees(fox, "ben"), hears(fox, "ben"), sees(ben, "fox"), hears(ben, "fox")]);

      const say = (text: string) => {
        const { localParticipant: me } = window.livekit;
        return me.publishData(new TextEncoder().encode(text), { reliable: true, topic: "t" }) as Promise<void>;
      };
      await Promise.all([fox.evaluate(say, "from fox"), ben.evaluate(say, "from ben")]);
      await Promise.all([got(ben, "fox t from fox"), got(fox, "ben t from ben")]);

      const setCamera = async (enabled: boolean) => {
        const { localParticipant: me } = window.livekit;
        if (enabled) await me.setCameraEnabled(true);
        else await me.unpublishTrack(me.getTrackPublication("camera").track);
      };
      for (const [page, other] of [
        [fox, ben],
        [ben, fox],
      ] as [Scripted, Scripted][]) {
        const id = `${page === fox ? "fox" : "ben"}`;
        await page.evaluate(setCamera, false);
        await isGone(other, `${id}-camera`);
        await page.evaluate(setCamera, true);
        await sees(other, id);
      }
      await fox.evaluate(
        async () => void (await window.livekit.localParticipant.setMicrophoneEnabled(false)),
        undefined,
      );
      await happened(ben, "muted fox microphone");
      const records = await stage.stoa.connections.list();
      expect(records.map(({ participantIdentity, sdk }) => [participantIdentity, sdk?.split("/")[0]])).toContainEqual([
        "fox",
        "livekit-js",
      ]);
      await fox.evaluate(() => window.livekit.disconnect() as Promise<void>, undefined);
      await happened(ben, "left fox");
      await ben.context().close();
    },
    5 * WAIT_MS,
  );
}
