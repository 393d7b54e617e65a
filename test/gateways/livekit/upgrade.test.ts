// runs: beside one
// browser: windows
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { checkoutOf } from "../../cluster/checkout.ts";
import { Upgradable } from "../../ops/upgradable.ts";
import { happened, hears, joinLivekit, sees } from "./harness/livekit-page.ts";
import { type StageBeside, stageBeside, WAIT_MS } from "./harness/stage.ts";

declare global {
  interface Window {
    /** The longest time between two frames of a participant's video since it was last asked. */
    longestGapMs(identity: string): number;
  }
}

const host = new Upgradable();
const other = checkoutOf("0.3.0");
let stage: StageBeside;
beforeAll(async () => {
  await host.prepare();
  await host.start("--livekit-clients", "on");
  const { url, key } = host.server;
  stage = await stageBeside({ url, apiKey: key, livekit: await host.livekitKey() });
}, 180_000);
afterAll(async () => {
  await stage?.close();
  await host.end();
  host.remove();
  other.remove();
});

/** A participant with a video of the page's own: LiveKit's clients reopen a camera when they rejoin. */
async function enter(room: string, identity: string, singlePeerConnection: boolean): Promise<Page> {
  const page = await stage.page("livekit-client");
  const options = { publish: false, room: { singlePeerConnection } };
  await joinLivekit(page, stage.wsUrl, await stage.token(room, identity), options);
  await page.evaluate(async () => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 640, height: 360 });
    const context = canvas.getContext("2d") as CanvasRenderingContext2D;
    let frame = 0;
    setInterval(() => {
      context.fillStyle = `hsl(${frame++ * 7} 80% 50%)`;
      context.fillRect(0, 0, canvas.width, canvas.height);
    }, 40);
    const [video] = canvas.captureStream(25).getVideoTracks();
    const { localParticipant: me } = window.livekit;
    await me.publishTrack(video, { source: "camera", simulcast: false });
    await me.setMicrophoneEnabled(true);
    const watched = new Map<string, { at: number; longest: number }>();
    window.longestGapMs = (identity) => {
      const known = watched.get(identity);
      const { longest = 0 } = known ?? {};
      if (known) known.longest = 0;
      else {
        const state = { at: performance.now(), longest: 0 };
        watched.set(identity, state);
        const video = document.getElementById(`${identity}-camera`) as HTMLVideoElement;
        const shown = () => {
          const now = performance.now();
          state.longest = Math.max(state.longest, now - state.at);
          state.at = now;
          video.requestVideoFrameCallback(shown);
        };
        video.requestVideoFrameCallback(shown);
      }
      return longest;
    };
  });
  return page;
}

const sidOf = (page: Page) => page.evaluate(() => window.livekit.localParticipant.sid as string);
const gapOf = (page: Page, identity: string) => page.evaluate((id) => window.longestGapMs(id), identity);
const eventsOf = (page: Page) => page.evaluate(() => window.events.splice(0));

test(
  "LiveKit's clients on one and two connections resume with another version, and keep their media meanwhile",
  async () => {
    const ann = await enter("kept", "ann", true);
    const ben = await enter("kept", "ben", false);
    await Promise.all([sees(ann, "ben"), sees(ben, "ann"), hears(ann, "ben"), hears(ben, "ann")]);
    const sids = await Promise.all([sidOf(ann), sidOf(ben)]);
    for (const [page, other] of [
      [ann, "ben"],
      [ben, "ann"],
    ] as const) {
      await gapOf(page, other);
      await eventsOf(page);
    }
    for (let round = 1; round <= 2; round++) {
      const usual = await Promise.all([gapOf(ann, "ben"), gapOf(ben, "ann")]);
      const { code, err } = await host.upgrade(...(round === 1 ? ["--binary", other.program] : []));
      expect({ code, err }).toEqual({ code: 0, err: "" });
      await Promise.all([happened(ann, "reconnected"), happened(ben, "reconnected")]);
      const gaps = await Promise.all([gapOf(ann, "ben"), gapOf(ben, "ann")]);
      const events = await Promise.all([eventsOf(ann), eventsOf(ben)]);
      const rounded = (all: number[]) => all.map((ms) => Math.round(ms)).join(", ");
      console.log(`upgrade ${round}: longest gaps ${rounded(gaps)} ms (before ${rounded(usual)} ms), ${events}`);
      expect(events).toEqual([
        ["signal reconnecting", "reconnected"],
        ["signal reconnecting", "reconnected"],
      ]);
      expect(await Promise.all([sidOf(ann), sidOf(ben)])).toEqual(sids);
    }

    // The session continues as if nothing had happened: mutes, tracks and participants are known to all.
    await ann.evaluate(() => window.livekit.localParticipant.setMicrophoneEnabled(false));
    await happened(ben, "muted ann microphone");
    await ben.evaluate(async () => {
      const canvas = document.createElement("canvas");
      const context = canvas.getContext("2d") as CanvasRenderingContext2D;
      setInterval(() => context.fillRect(0, 0, Math.random() * 100, 100), 40);
      const [video] = canvas.captureStream(25).getVideoTracks();
      await window.livekit.localParticipant.publishTrack(video, { source: "screen_share", simulcast: false });
    });
    await sees(ann, "ben", "screen_share");
    const cyd = await enter("kept", "cyd", false);
    await Promise.all([sees(ann, "cyd"), sees(ben, "cyd"), sees(cyd, "ann"), sees(cyd, "ben"), hears(cyd, "ben")]);
    await ann.evaluate(() => window.livekit.disconnect());
    await Promise.all([happened(ben, "left ann"), happened(cyd, "left ann")]);
    for (const page of [ann, ben, cyd]) await page.context().close();
  },
  5 * WAIT_MS,
);
