/** cuts: networks that vanish for 5 to 40 s under calls in Chromium and Firefox. `bin/bench cuts [CUTS] [CALLS] [SECONDS]` */
import { launchFirefox } from "../browser/sdk/firefox.ts";
import { hearing, joinRoom, moreFrames } from "../browser/sdk/page-api.ts";
import type { Scripted } from "../browser/sdk/scripted.ts";
import { openStage } from "../browser/sdk/stage.ts";
import { median, report } from "./harness/report.ts";

const [cuts = 100, callsOfEach = 4, longestSeconds = 40] = process.argv.slice(2).map(Number);
const SHORTEST_SECONDS = 5;
const NAMES = ["anna", "ben"] as const;
/** A small picture and few of them a second: eight calls share the cores of one machine, and encode in software. */
const HEIGHT = 90;
const FRAME_RATE = 5;
/** A second of them. */
const FRAMES = 5;
const PATIENCE_MS = 90_000;
const GOAL_MS = 15_000;

const [stage, firefox] = await Promise.all([openStage(), launchFirefox()]);

declare global {
  interface Window {
    diary: { at: number; what: string }[];
  }
}

/** In the page: what its sockets and connections go through, to see what a slow return has waited for. */
function keepDiary(): void {
  const diary: Window["diary"] = [];
  window.diary = diary;
  const QUIET = new Set(["pong", "ack", "speakers.changed", "quality.changed", "quality.explained"]);
  const note = (what: string) => diary.push({ at: Date.now(), what });
  let tick = Date.now();
  setInterval(() => {
    const late = Date.now() - tick - 500;
    tick = Date.now();
    if (late > 500) note(`page had no time for ${late} ms`);
  }, 500);
  window.WebSocket = class extends WebSocket {
    constructor(url: string | URL, protocols?: string | string[]) {
      super(url, protocols);
      note("socket begins");
      this.addEventListener("open", () => note("socket open"));
      this.addEventListener("close", ({ code }) => note(`socket closed ${code}`));
      this.addEventListener("message", ({ data }) => {
        const { type, mode, trackId = "", layer = "", reason = "" } = JSON.parse(data);
        if (mode !== undefined) note(`joined: ${mode}`);
        else if (!QUIET.has(type)) note(`hears ${[type, trackId.slice(-4), layer, reason].join(" ").trim()}`);
      });
    }
    override send(data: string): void {
      const { type, iceRestart = false } = JSON.parse(data);
      if (type !== "ping") note(`says ${type}${iceRestart ? " with new ICE" : ""}`);
      super.send(data);
    }
  };
  window.RTCPeerConnection = class extends RTCPeerConnection {
    constructor(options?: RTCConfiguration) {
      super(options);
      note("connection begins");
      this.addEventListener("connectionstatechange", () => note(`connection ${this.connectionState}`));
    }
  };
}

const note = (what: string) => void window.diary.push({ at: Date.now(), what });

/** In the page: everything since then, in seconds. */
const readDiary = (from: number) =>
  window.diary.filter(({ at }) => at >= from).map(({ at, what }) => `${((at - from) / 1_000).toFixed(1)} ${what}`);

type Cut = { browser: string; seconds: number; backMs: number };

async function openCall(browser: "Chromium" | "Firefox", number: number) {
  const network = await stage.openNetwork();
  const { id: roomId } = await stage.stoa.rooms.create({ name: `${browser}-${number}` });
  const page = (): Promise<Scripted> => (browser === "Firefox" ? firefox.page(stage.siteUrl) : stage.page());
  const [anna, ben] = [await page(), await page()];
  for (const [index, one] of [anna, ben].entries()) {
    const credentials = await stage.rtc(roomId, NAMES[index] ?? "", undefined, { network });
    await one.evaluate(keepDiary, undefined);
    await joinRoom(one, credentials, ["camera", "microphone"], HEIGHT, FRAME_RATE);
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
      moreFrames(anna, "ben-camera", FRAMES, PATIENCE_MS).then(() => anna.evaluate(note, "sees")),
      moreFrames(ben, "anna-camera", FRAMES, PATIENCE_MS).then(() => ben.evaluate(note, "sees")),
      hearing(anna, PATIENCE_MS).then(() => anna.evaluate(note, "listens")),
      hearing(ben, PATIENCE_MS).then(() => ben.evaluate(note, "listens")),
    ]);
  await bothSeeAndHear();
  return async (seconds: number): Promise<Cut> => {
    network.silence();
    await impair("offline");
    await Bun.sleep(seconds * 1_000);
    await impair("none");
    network.heal();
    const [healedAt, started] = [Date.now(), performance.now()];
    const back = await bothSeeAndHear().catch(() => null);
    const backMs = back ? performance.now() - started : PATIENCE_MS;
    if (backMs > GOAL_MS)
      for (const [index, one] of [anna, ben].entries())
        console.log(NAMES[index], await one.evaluate(readDiary, healedAt - seconds * 1_000));
    return { browser, seconds, backMs };
  };
}

const done: Cut[] = [];
let left = cuts;
try {
  const numbers = Array.from({ length: callsOfEach }, (_, n) => n);
  const calls = await Promise.all(numbers.flatMap((n) => [openCall("Chromium", n), openCall("Firefox", n)]));
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
    { what: "back after, worst", value: Math.max(...back), unit: "ms", goal: { atMost: GOAL_MS } },
  ],
  { cuts: done },
);
process.exit();
