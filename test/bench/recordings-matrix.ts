/** recordings-matrix: flash and beep of two people in every browser and codec, without and with loss, and whether all their files have them together. `bin/bench recordings-matrix [seconds] [only…]`, such as `60 "firefox vp9 at 5"` or `20 muted` */
import type { VideoCodec } from "../../web/sdk/room/peer/codecs.ts";
import { enterOwnNetwork } from "./harness/own-network.ts";
import { isMet, type Measured, median, report } from "./harness/report.ts";
import { EVENTS, type EventName } from "./recordings/events.ts";
import { apart, begin, laterBy, measure, type Person, sendableCodecs } from "./recordings/person.ts";
import { BROWSERS, type BrowserName, openRecordedRooms } from "./recordings/recorded-room.ts";
import { CAME } from "./recordings/told.ts";

const [seconds = "60", ...only] = process.argv.slice(2);
const CODECS: readonly VideoCodec[] = ["VP8", "H264", "VP9", "AV1"];
const LOSSES = [0, 5];
const TOGETHER_MS = 40;
const DURATION_MS = 200;
/** Of the seconds that it ran, how many have to be found in both files. */
const MOST = 0.8;

await enterOwnNetwork();
const rooms = await openRecordedRooms();
const figures: Measured[] = [];
const outcomes: object[] = [];
const skipped: string[] = [];
const isWanted = (name: string) =>
  only.length === 0 || only.some((part) => name.toLowerCase().includes(part.toLowerCase()));

type Cast = { name: string; person: Person };

/** Records a room while `act` goes on, and measures everybody who was in it. */
async function record(
  name: string,
  gather: (roomId: string) => Promise<Cast[]>,
  act: (cast: Cast[], roomId: string) => Promise<void>,
  /** What the timeline says of the first, besides what it says of everybody. */
  alsoTold: readonly string[] = [],
) {
  const room = await rooms.stoa.rooms.create({ name: crypto.randomUUID() });
  const recording = await rooms.stoa.recordings.start(room.id, { name });
  const cast = await gather(room.id);
  await act(cast, room.id);
  const stoppedAt = Date.now();
  const stopped = await rooms.stoa.recordings.stop(recording.id);
  for (const { person } of cast) person.made = await person.page.evaluate(() => window.show.made, undefined);
  const happened = cast.map(({ person }, i) => [person.identity, i === 0 ? [...CAME, ...alsoTold] : CAME] as const);
  const untold = await rooms.told.complaints(stopped, Object.fromEntries(happened));
  figures.push({ what: `${name}: webhooks and timeline wrong`, value: untold.length, unit: "", goal: { atMost: 0 } });
  if (untold.length > 0) outcomes.push({ name, untold });
  const measured = [];
  for (const one of cast) measured.push({ ...one, ...(await measure(rooms, stopped, one.person, stoppedAt)) });
  return measured;
}

type Measurements = Awaited<ReturnType<typeof record>>;

function note(one: Measurements[number], lasted: number): number[] {
  const { name, found, complaints, durationOffMs, endsMs, codecs } = one;
  const distances = apart(found);
  const close = distances.filter((ms) => Math.abs(ms) <= TOGETHER_MS).length / Math.max(1, distances.length);
  figures.push({ what: `${name}: complaints of ffmpeg`, value: complaints.length, unit: "", goal: { atMost: 0 } });
  figures.push({ what: `${name}: duration off by`, value: durationOffMs, unit: "ms", goal: { atMost: DURATION_MS } });
  const together = Math.abs(median(distances));
  figures.push({ what: `${name}: flash from beep`, value: together, unit: "ms", goal: { atMost: TOGETHER_MS } });
  figures.push({ what: `${name}: seconds within ${TOGETHER_MS} ms`, value: 100 * close, unit: "%" });
  const share = (100 * distances.length) / lasted;
  figures.push({ what: `${name}: seconds found`, value: share, unit: "%", goal: { atLeast: 100 * MOST } });
  outcomes.push({ name, codecs, complaints, durationOffMs, endsMs, apartMs: distances.map(Math.round) });
  return distances;
}

/** Two who send the same codec: the files of both lie on one line. */
async function codecRow(name: string, browserName: BrowserName, codec: VideoCodec, loss: number): Promise<void> {
  const browser = await rooms.openBrowser(browserName);
  try {
    await rooms.lose(loss);
    const first = await browser.page();
    if ((await first.evaluate(sendableCodecs, [codec])).length === 0) {
      skipped.push(`${browserName} cannot send ${codec}`);
      return;
    }
    const gather = async (roomId: string): Promise<Cast[]> => {
      const [ada, bob] = [first, await browser.page()];
      return [
        { name: `${name}, first`, person: await begin(rooms, ada, roomId, "ada", { codec }) },
        { name: `${name}, second`, person: await begin(rooms, bob, roomId, "bob", { codec }) },
      ];
    };
    const both = await record(name, gather, () => Bun.sleep(Number(seconds) * 1_000));
    for (const one of both) note(one, Number(seconds));
    noteTogether(name, both);
  } finally {
    await browser.close();
  }
}

/** Pictures and sound of everybody, one with the other. */
function noteTogether(name: string, everybody: Measurements): void {
  const places = everybody.flatMap(({ found }) => [laterBy(found, "video"), laterBy(found, "audio")]);
  const value = Math.max(...places) - Math.min(...places);
  figures.push({ what: `${name}: all files within`, value, unit: "ms", goal: { atMost: TOGETHER_MS } });
  outcomes.push({ name, laterMs: places.map(Math.round) });
}

/** Something happens to one of two in the middle, and afterwards all is where it was before. */
async function eventRow(name: string, browserName: BrowserName, event: EventName): Promise<void> {
  const browser = await rooms.openBrowser(browserName);
  const part = Math.max(6, Number(seconds) / 2) * 1_000;
  const { size, how, happen, told } = EVENTS[event];
  const during = { fromMs: 0, toMs: 0 };
  try {
    await rooms.lose(0);
    const gather = async (roomId: string): Promise<Cast[]> => {
      const [ada, bob] = [await browser.page(), await browser.page()];
      return [
        { name, person: await begin(rooms, ada, roomId, "ada", how, size) },
        { name: `${name}, the other`, person: await begin(rooms, bob, roomId, "bob", { codec: "VP8" }) },
      ];
    };
    const act = async (cast: Cast[], roomId: string) => {
      await Bun.sleep(part);
      during.fromMs = Date.now();
      await happen(rooms, (cast[0] as Cast).person.page, roomId, "ada", browserName);
      during.toMs = Date.now();
      await Bun.sleep(part);
    };
    const both = await record(name, gather, act, told(browserName));
    for (const one of both) note(one, (2 * part) / 1_000);
    const [ada] = both as [Measurements[number]];
    const madeAt = (second: number) => ada.person.made[second]?.flashAt ?? 0;
    for (const kind of ["video", "audio"] as const) {
      const before = ada.found.filter(({ second }) => madeAt(second) < during.fromMs);
      const after = ada.found.filter(({ second }) => madeAt(second) > during.toMs);
      const value = Math.abs(laterBy(after, kind) - laterBy(before, kind));
      figures.push({ what: `${name}: ${kind} moved by`, value, unit: "ms", goal: { atMost: TOGETHER_MS } });
    }
    noteTogether(name, both);
  } finally {
    await browser.close();
  }
}

type Row = { name: string; run(name: string): Promise<void> };
const rows: Row[] = BROWSERS.flatMap((browser) => [
  ...CODECS.flatMap((codec) =>
    LOSSES.map((loss): Row => {
      return { name: `${browser} ${codec} at ${loss} %`, run: (name) => codecRow(name, browser, codec, loss) };
    }),
  ),
  ...(Object.keys(EVENTS) as EventName[]).map((event): Row => {
    return { name: `${browser} ${event}`, run: (name) => eventRow(name, browser, event) };
  }),
]);

try {
  for (const { name, run } of rows.filter((row) => isWanted(row.name))) {
    const before = figures.length;
    console.error(name);
    await run(name);
    // As they come: a run of a quarter of an hour that is cut short has shown something.
    for (const { what, value, unit } of figures.slice(before)) console.error(`  ${what}  ${value.toFixed(1)} ${unit}`);
  }
} finally {
  await rooms.close();
}
const missed = figures.filter(({ value, goal }) => goal && !isMet(value, goal)).map(({ what }) => what);
report("recordings-matrix", figures, { seconds: Number(seconds), skipped: [...new Set(skipped)], missed, outcomes });
process.exit();
