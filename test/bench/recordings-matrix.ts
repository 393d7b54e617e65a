/** recordings-matrix: flash and beep of two people in every browser and codec, without and with loss, and whether all their files have them together. `bin/bench recordings-matrix [seconds] [only…]`, such as `60 "firefox vp9 at 5"` or `20 muted` */
import type { Recording } from "../../src/protocol/recordings.ts";
import type { VideoCodec } from "../../web/sdk/room/peer/codecs.ts";
import { prepareShow, type ShowOptions, type Size } from "../features/recordings/flash-and-beep.ts";
import { enterOwnNetwork } from "./harness/own-network.ts";
import { isMet, type Measured, median, report } from "./harness/report.ts";
import { CHANGED_CODEC, EVENTS, type EventName } from "./recordings/events.ts";
import { apart, canSend, enter, laterBy, measure, type Person } from "./recordings/person.ts";
import { BROWSERS, type BrowserName, openRecordedRooms } from "./recordings/recorded-room.ts";
import { CAME } from "./recordings/told.ts";

const [seconds = "60", ...only] = process.argv.slice(2);
const CODECS: readonly VideoCodec[] = ["VP8", "H264", "VP9", "AV1"];
const LOSSES = [0, 5];
const TOGETHER_MS = 40;
const DURATION_MS = 200;
const SMALL: Size = { width: 160, height: 90 };
/** The share of the seconds of its run that must be found in both files. */
const MOST = 0.8;

await enterOwnNetwork();
const rooms = await openRecordedRooms();
const figures: Measured[] = [];
const outcomes: object[] = [];
const skipped = new Set<string>();

type Row = { name: string; browserName: BrowserName; codec: VideoCodec; loss: number; event?: EventName };
type Cast = { name: string; person: Person };
type Opened = { row: Row; how: ShowOptions; cast: [Cast, Cast]; close(): Promise<void> };
type Recorded = Opened & { recording: Recording; stoppedAtMs: number; lasted: number; fromMs: number; toMs: number };
type Measurements = (Cast & Awaited<ReturnType<typeof measure>>)[];

/** Opens two participants who flash and beep, before they join. Null if the browser cannot send that. */
async function open(row: Row): Promise<Opened | null> {
  const { name, browserName, codec, event } = row;
  const cannot = `${browserName} cannot send ${codec}`;
  if (skipped.has(cannot)) return null;
  const browser = await rooms.openBrowser(browserName);
  const pages = [await browser.page(), await browser.page()] as const;
  if (!(await pages[0].evaluate(canSend, codec))) {
    skipped.add(cannot);
    await browser.close();
    return null;
  }
  const { size, how } = event ? EVENTS[event] : { size: SMALL, how: { codec } };
  await Promise.all([pages[0].evaluate(prepareShow, size), pages[1].evaluate(prepareShow, SMALL)]);
  const cast: [Cast, Cast] = [
    { name: event ? name : `${name}, first`, person: { identity: "ada", page: pages[0], made: [] } },
    { name: `${name}, ${event ? "the other" : "second"}`, person: { identity: "bob", page: pages[1], made: [] } },
  ];
  return { row, how, cast, close: () => browser.close() };
}

/** Nothing else runs meanwhile. An event happens to the first participant in the middle of the recording. */
async function record(opened: Opened): Promise<Recorded> {
  const { row, how, cast } = opened;
  const [ada, bob] = cast.map(({ person }) => person) as [Person, Person];
  try {
    await rooms.lose(row.loss);
    const room = await rooms.stoa.rooms.create({ name: crypto.randomUUID() });
    const recording = await rooms.stoa.recordings.start(room.id, { name: row.name });
    await enter(rooms, ada.page, room.id, ada.identity, how);
    await enter(rooms, bob.page, room.id, bob.identity, { codec: row.codec });
    const parts = row.event ? [1, 2].map(() => Math.max(6, Number(seconds) / 2)) : [Number(seconds)];
    const [before = 0, after = 0] = parts;
    await Bun.sleep(before * 1_000);
    const fromMs = Date.now();
    if (row.event) await EVENTS[row.event].happen(rooms, ada.page, room.id, ada.identity, row.browserName);
    const toMs = Date.now();
    await Bun.sleep(after * 1_000);
    const stoppedAtMs = Date.now();
    const stopped = await rooms.stoa.recordings.stop(recording.id);
    for (const person of [ada, bob]) person.made = await person.page.evaluate(() => window.show.made, undefined);
    return { ...opened, recording: stopped, stoppedAtMs, lasted: before + after, fromMs, toMs };
  } finally {
    await opened.close();
  }
}

async function judge({ row, cast, recording, stoppedAtMs, lasted, fromMs, toMs }: Recorded): Promise<void> {
  const { name, event, browserName } = row;
  const noted = figures.length;
  const alsoTold = event ? EVENTS[event].told(browserName) : [];
  const happened = cast.map(({ person }, i) => [person.identity, i === 0 ? [...CAME, ...alsoTold] : CAME] as const);
  const untold = await rooms.told.complaints(recording, Object.fromEntries(happened));
  figures.push({ what: `${name}: webhooks and timeline wrong`, value: untold.length, unit: "", goal: { atMost: 0 } });
  if (untold.length > 0) outcomes.push({ name, untold });
  const both: Measurements = [];
  for (const one of cast) both.push({ ...one, ...(await measure(rooms, recording, one.person, stoppedAtMs)) });
  const wanted = [row.codec, ...(event === "other codec" ? [CHANGED_CODEC] : [])];
  for (const [i, one] of both.entries()) note(one, i === 0 ? wanted : [row.codec], lasted);
  if (event) noteMoved(name, both[0] as Measurements[number], fromMs, toMs);
  noteTogether(name, both);
  // Written at once, because a run of half an hour that is cut short should still have shown something.
  for (const { what, value, unit } of figures.slice(noted)) console.error(`  ${what}  ${value.toFixed(1)} ${unit}`);
}

/** `wanted`: the codecs that it was sent in, one after the other. */
function note(one: Measurements[number], wanted: readonly VideoCodec[], lasted: number): void {
  const { name, found, complaints, durationOffMs, endsMs, codecs } = one;
  const distances = apart(found);
  const close = distances.filter((ms) => Math.abs(ms) <= TOGETHER_MS).length / Math.max(1, distances.length);
  const lacking = new Set(wanted.map((codec) => codec.toLowerCase())).symmetricDifference(new Set(codecs)).size;
  figures.push({ what: `${name}: codecs wrong`, value: lacking, unit: "", goal: { atMost: 0 } });
  figures.push({ what: `${name}: complaints of ffmpeg`, value: complaints.length, unit: "", goal: { atMost: 0 } });
  figures.push({ what: `${name}: duration off by`, value: durationOffMs, unit: "ms", goal: { atMost: DURATION_MS } });
  const together = Math.abs(median(distances));
  figures.push({ what: `${name}: flash from beep`, value: together, unit: "ms", goal: { atMost: TOGETHER_MS } });
  figures.push({ what: `${name}: seconds within ${TOGETHER_MS} ms`, value: 100 * close, unit: "%" });
  const share = (100 * distances.length) / lasted;
  figures.push({ what: `${name}: seconds found`, value: share, unit: "%", goal: { atLeast: 100 * MOST } });
  outcomes.push({ name, codecs, complaints, durationOffMs, endsMs, apartMs: distances.map(Math.round) });
}

/** After the event, everything must be at the same offset as before. */
function noteMoved(name: string, { person, found }: Measurements[number], fromMs: number, toMs: number): void {
  const madeAt = (second: number) => person.made[second]?.flashAt ?? 0;
  for (const kind of ["video", "audio"] as const) {
    const before = found.filter(({ second }) => madeAt(second) < fromMs);
    const after = found.filter(({ second }) => madeAt(second) > toMs);
    const value = Math.abs(laterBy(after, kind) - laterBy(before, kind));
    figures.push({ what: `${name}: ${kind} moved by`, value, unit: "ms", goal: { atMost: TOGETHER_MS } });
  }
}

/** Video and audio of all participants, one with the other. */
function noteTogether(name: string, everybody: Measurements): void {
  const places = everybody.flatMap(({ found }) => [laterBy(found, "video"), laterBy(found, "audio")]);
  const value = Math.max(...places) - Math.min(...places);
  figures.push({ what: `${name}: all files within`, value, unit: "ms", goal: { atMost: TOGETHER_MS } });
  outcomes.push({ name, laterMs: places.map(Math.round) });
}

const all: Row[] = BROWSERS.flatMap((browserName) => [
  ...CODECS.flatMap((codec) =>
    LOSSES.map((loss): Row => ({ name: `${browserName} ${codec} at ${loss} %`, browserName, codec, loss })),
  ),
  ...(Object.keys(EVENTS) as EventName[]).map((event): Row => {
    return { name: `${browserName} ${event}`, browserName, codec: "VP8", loss: 0, event };
  }),
]);
const rows = all.filter(
  ({ name }) => only.length === 0 || only.some((part) => name.toLowerCase().includes(part.toLowerCase())),
);

try {
  let opened = rows[0] ? await open(rows[0]) : null;
  for (const [i, { name }] of rows.entries()) {
    console.error(name);
    const recorded = opened && (await record(opened));
    const next = rows[i + 1];
    // The files are read while the next two get ready, and not while they are recorded.
    [opened] = await Promise.all([next ? open(next) : null, recorded ? judge(recorded) : null]);
  }
} finally {
  await rooms.close();
}
const missed = figures.filter(({ value, goal }) => goal && !isMet(value, goal)).map(({ what }) => what);
report("recordings-matrix", figures, { seconds: Number(seconds), skipped: [...skipped], missed, outcomes });
process.exit();
