/** cuts: networks that vanish for 5 to 40 s under calls in Chromium and Firefox. `bin/bench cuts [CUTS] [CALLS] [SECONDS]` */
import { cpus } from "node:os";
import type { Scripted } from "../e2e/sdk/scripted.ts";
import { joinCall, keepDiary, mediaPort, mostStarvedMs, readDiary, type Source, seesOrHears } from "./cuts/page.ts";
import { type BrowserName, openStage } from "./cuts/stage.ts";
import { type Measured, median, report } from "./harness/report.ts";

const [cuts = 100, callsOfEach = 4, longestSeconds = 40] = process.argv.slice(2).map(Number);
const SHORTEST_SECONDS = 5;
/** One speaks and the other shows: sixteen pages share the cores of one machine, and encode in software. */
const PEOPLE: readonly { name: string; sends: Source; awaits: Source }[] = [
  { name: "anna", sends: "microphone", awaits: "camera" },
  { name: "ben", sends: "camera", awaits: "microphone" },
];
const BROWSERS = ["Chromium", "Firefox"] as const;
const VIDEO = { width: 160, height: 90, frameRate: 5 };
/** A second of them. */
const FRAMES = 5;
const PATIENCE_MS = 90_000;
const GOAL_MS = 15_000;
/** If a page had no CPU time for this long, its figures describe the machine, not the call. */
const STARVED_MS = 1_000;
/** Between two cuts of a call: what is mended stays mended. */
const CALM_MS = 6_000;

const stage = await openStage(callsOfEach * BROWSERS.length, VIDEO.frameRate);

type Cut = { browser: BrowserName; seconds: number; backMs: number; starvedMs: number };

async function openCall(browser: BrowserName, number: number) {
  const room = await stage.openRoom(`${browser}-${number}`);
  const people: ((typeof PEOPLE)[number] & { page: Scripted })[] = [];
  for (const person of PEOPLE) {
    const page = await stage.page(browser);
    people.push({ ...person, page });
    await page.evaluate(keepDiary, undefined);
    await page.evaluate(joinCall, { ...(await room.join(person.name)), ...VIDEO, sends: person.sends });
  }
  const pages = people.map(({ page }) => page);
  const everyPage = async (patienceMs = PATIENCE_MS) => {
    const each = people.map(({ page, awaits }) =>
      page.evaluate(seesOrHears, { of: awaits, frames: FRAMES, patienceMs }),
    );
    return (await Promise.all(each)).every((is) => is);
  };
  if (!(await everyPage())) throw new Error(`${browser} ${number} does not begin`);
  // The port of the worker that has the room, as long as a participant is in it.
  const ports = await Promise.all(pages.map((page) => page.evaluate(mediaPort, undefined)));
  const [port] = ports;
  if (!port || ports.some((other) => other !== port)) throw new Error(`media of one call on ports ${ports}`);
  const starvedMs = async () =>
    Math.max(...(await Promise.all(pages.map((page) => page.evaluate(mostStarvedMs, undefined)))));
  return async (seconds: number): Promise<Cut> => {
    await starvedMs();
    await room.cut(port);
    await Bun.sleep(seconds * 1_000);
    await room.heal(port);
    const [healedAt, started] = [Date.now(), performance.now()];
    const isBack = await everyPage();
    const backMs = isBack ? performance.now() - started : PATIENCE_MS;
    if (backMs > GOAL_MS)
      for (const { name, page } of people)
        console.log(name, await page.evaluate(readDiary, healedAt - seconds * 1_000));
    return { browser, seconds, backMs, starvedMs: await starvedMs() };
  };
}

/** Busy, of all cores. */
function cpuMeter(): () => number {
  const read = () =>
    cpus().reduce(
      (sum, { times }) => ({
        idle: sum.idle + times.idle,
        all: sum.all + Object.values(times).reduce((a, b) => a + b, 0),
      }),
      { idle: 0, all: 0 },
    );
  const before = read();
  return () => {
    const now = read();
    return 1 - (now.idle - before.idle) / (now.all - before.all);
  };
}

const done: Cut[] = [];
let left = cuts;
let busy = 0;
try {
  const calls: ((seconds: number) => Promise<Cut>)[] = [];
  // One after another: a client that begins in a crowd begins late.
  for (let n = 0; n < callsOfEach; n++) for (const browser of BROWSERS) calls.push(await openCall(browser, n));
  const busyShare = cpuMeter();
  // Each call on a network of its own, one cut after another, all of them side by side.
  await Promise.all(
    calls.map(async (cut) => {
      while (left > 0) {
        left -= 1;
        const seconds = SHORTEST_SECONDS + Math.random() * (longestSeconds - SHORTEST_SECONDS);
        const one = await cut(seconds);
        done.push(one);
        console.log(
          `${one.browser}: ${one.seconds.toFixed(1)} s without a packet, back after ${Math.round(one.backMs)} ms, a timer at most ${one.starvedMs} ms late`,
        );
        await Bun.sleep(CALM_MS);
      }
    }),
  );
  busy = busyShare();
} finally {
  await stage.close();
}

const figures: Measured[] = BROWSERS.flatMap((browser): Measured[] => {
  const own = done.filter((cut) => cut.browser === browser);
  if (own.length === 0) return [];
  const back = own.map(({ backMs }) => backMs);
  const late = own.filter(({ backMs }) => backMs > GOAL_MS);
  return [
    { what: `${browser}: cuts of ${SHORTEST_SECONDS} to ${longestSeconds} s`, value: own.length, unit: "" },
    { what: `${browser}: back after, median`, value: median(back), unit: "ms" },
    { what: `${browser}: back after, worst`, value: Math.max(...back), unit: "ms", goal: { atMost: GOAL_MS } },
    { what: `${browser}: later than that`, value: late.length, unit: "" },
    {
      what: `${browser}: of these in pages that had no time for a second`,
      value: late.filter(({ starvedMs }) => starvedMs > STARVED_MS).length,
      unit: "",
    },
    {
      what: `${browser}: a timer of a page late by at most`,
      value: Math.max(...own.map(({ starvedMs }) => starvedMs)),
      unit: "ms",
      goal: { atMost: STARVED_MS },
    },
  ];
});
report("cuts", [...figures, { what: "cores busy", value: busy * 100, unit: "%" }], { cuts: done });
process.exit();
