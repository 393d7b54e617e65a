/** cuts: networks that vanish for 5 to 40 s under calls in Chromium and Firefox. `bin/bench cuts [CUTS] [CALLS] [SECONDS]` */
import { launchFirefox } from "../browser/sdk/firefox.ts";
import { hearing, joinRoom, moreFrames } from "../browser/sdk/page-api.ts";
import type { Scripted } from "../browser/sdk/scripted.ts";
import { openStage } from "../browser/sdk/stage.ts";
import { median, report } from "./harness/report.ts";

const [cuts = 100, callsOfEach = 4, longestSeconds = 40] = process.argv.slice(2).map(Number);
const SHORTEST_SECONDS = 5;
const NAMES = ["anna", "ben"] as const;
/** A small picture: several calls share the cores of one machine. */
const HEIGHT = 180;
const PATIENCE_MS = 90_000;

const [stage, firefox] = await Promise.all([openStage(), launchFirefox()]);

type Cut = { browser: string; seconds: number; backMs: number };

async function openCall(browser: "Chromium" | "Firefox", number: number) {
  const network = await stage.openNetwork();
  const { id: roomId } = await stage.stoa.rooms.create({ name: `${browser}-${number}` });
  const page = (): Promise<Scripted> => (browser === "Firefox" ? firefox.page(stage.siteUrl) : stage.page());
  const [anna, ben] = [await page(), await page()];
  for (const [index, one] of [anna, ben].entries()) {
    const credentials = await stage.rtc(roomId, NAMES[index] ?? "", undefined, { network });
    await joinRoom(one, credentials, ["camera", "microphone"], HEIGHT);
  }
  const impair = (profile: "offline" | "none") =>
    Promise.all(
      NAMES.map((identity) =>
        fetch(`${stage.server.url}/v1/playground/impair`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ roomId, identity, profile }),
        }),
      ),
    );
  const bothSeeAndHear = () =>
    Promise.all([
      moreFrames(anna, "ben-camera", 10, PATIENCE_MS),
      moreFrames(ben, "anna-camera", 10, PATIENCE_MS),
      hearing(anna, PATIENCE_MS),
      hearing(ben, PATIENCE_MS),
    ]);
  await bothSeeAndHear();
  return async (seconds: number): Promise<Cut> => {
    network.silence();
    await impair("offline");
    await Bun.sleep(seconds * 1_000);
    await impair("none");
    network.heal();
    const healedAt = performance.now();
    const back = await bothSeeAndHear().catch(() => null);
    return { browser, seconds, backMs: back ? performance.now() - healedAt : PATIENCE_MS };
  };
}

const done: Cut[] = [];
let left = cuts;
try {
  const calls = [];
  for (let n = 0; n < callsOfEach; n++) {
    calls.push(await openCall("Chromium", n), await openCall("Firefox", n));
  }
  // Each call on a network of its own, one cut after another, all of them side by side.
  await Promise.all(
    calls.map(async (cut) => {
      while (left > 0) {
        left -= 1;
        const seconds = SHORTEST_SECONDS + Math.random() * (longestSeconds - SHORTEST_SECONDS);
        const one = await cut(seconds);
        done.push(one);
        console.log(
          `${one.browser}: ${one.seconds.toFixed(1)} s without a packet, back after ${Math.round(one.backMs)} ms`,
        );
      }
    }),
  );
} finally {
  await Promise.all([stage.close(), firefox.close()]);
}
const back = done.map(({ backMs }) => backMs);
report(
  "cuts",
  [
    { what: `cuts of ${SHORTEST_SECONDS} to ${longestSeconds} s`, value: done.length, unit: "" },
    { what: "back after, median", value: median(back), unit: "ms" },
    { what: "back after, worst", value: Math.max(...back), unit: "ms", goal: { atMost: 15_000 } },
  ],
  { cuts: done },
);
process.exit();
