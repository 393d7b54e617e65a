/** recordings-matrix: flash and beep of two browsers in every codec, without and with loss, and whether the files have them together. `bin/bench recordings-matrix [seconds] [only…]` */
import type { VideoCodec } from "../../web/sdk/room/codecs.ts";
import { enterOwnNetwork } from "./harness/own-network.ts";
import { isMet, type Measured, median, report } from "./harness/report.ts";
import { EVENTS, type EventName } from "./recordings/events.ts";
import { apart, begin, laterBy, measure, type Person, sendableCodecs } from "./recordings/person.ts";
import { BROWSERS, type BrowserName, openRecordedRooms } from "./recordings/recorded-room.ts";

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
async function record(name: string, gather: (roomId: string) => Promise<Cast[]>, act: (cast: Cast[]) => Promise<void>) {
  const room = await rooms.stoa.rooms.create({ name: `${name}-${crypto.randomUUID().slice(0, 8)}` });
  const recording = await rooms.stoa.recordings.start(room.id, { name });
  const cast = await gather(room.id);
  await act(cast);
  const stoppedAt = Date.now();
  const stopped = await rooms.stoa.recordings.stop(recording.id);
  for (const { person } of cast) person.made = await person.page.evaluate(() => window.show.made, undefined);
  const measured = [];
  for (const one of cast) measured.push({ ...one, ...(await measure(rooms, stopped, one.person, stoppedAt)) });
  return measured;
}

type Measurements = Awaited<ReturnType<typeof record>>;

function note({ name, found, complaints, durationOffMs, codecs }: Measurements[number], lasted: number): number[] {
  const distances = apart(found);
  const close = distances.filter((ms) => Math.abs(ms) <= TOGETHER_MS).length / Math.max(1, distances.length);
  figures.push({ what: `${name}: complaints of ffmpeg`, value: complaints.length, unit: "", goal: { atMost: 0 } });
  figures.push({ what: `${name}: duration off by`, value: durationOffMs, unit: "ms", goal: { atMost: DURATION_MS } });
  const together = Math.abs(median(distances));
  figures.push({ what: `${name}: flash from beep`, value: together, unit: "ms", goal: { atMost: TOGETHER_MS } });
  figures.push({ what: `${name}: seconds within ${TOGETHER_MS} ms`, value: 100 * close, unit: "%" });
  const share = (100 * distances.length) / lasted;
  figures.push({ what: `${name}: seconds found`, value: share, unit: "%", goal: { atLeast: 100 * MOST } });
  outcomes.push({ name, codecs, complaints, durationOffMs, apartMs: distances.map(Math.round) });
  return distances;
}

async function codecsAt(browserName: BrowserName, loss: number): Promise<void> {
  const browser = await rooms.openBrowser(browserName);
  try {
    await rooms.lose(loss);
    const probe = await browser.page();
    const codecs = await probe.evaluate(sendableCodecs, CODECS);
    skipped.push(
      ...CODECS.filter((codec) => !codecs.includes(codec)).map((codec) => `${browserName} cannot send ${codec}`),
    );
    const wanted = codecs.filter((codec) => isWanted(`${browserName} ${codec} ${loss}%`));
    if (wanted.length === 0) return;
    const gather = async (roomId: string) => {
      const cast: Cast[] = [];
      for (const codec of wanted) {
        const person = await begin(rooms, await browser.page(), roomId, codec, { codec });
        cast.push({ name: `${browserName} ${codec} at ${loss} %`, person });
      }
      return cast;
    };
    const everybody = await record(`${browserName}-${loss}`, gather, () => Bun.sleep(Number(seconds) * 1_000));
    for (const one of everybody) note(one, Number(seconds));
    for (const kind of everybody.length > 1 ? (["video", "audio"] as const) : []) {
      const places = everybody.map(({ found }) => laterBy(found, kind));
      const what = `${browserName} at ${loss} %: ${kind} of all within`;
      const value = Math.max(...places) - Math.min(...places);
      figures.push({ what, value, unit: "ms", goal: { atMost: TOGETHER_MS } });
      outcomes.push({ name: what, laterMs: places.map(Math.round) });
    }
  } finally {
    await browser.close();
  }
}

/** Something happens in the middle, and afterwards all is where it was before. */
async function eventsIn(browserName: BrowserName): Promise<void> {
  const wanted = (Object.keys(EVENTS) as EventName[]).filter((event) => isWanted(`${browserName} ${event}`));
  if (wanted.length === 0) return;
  const browser = await rooms.openBrowser(browserName);
  const part = Math.max(6, Number(seconds) / 3) * 1_000;
  try {
    await rooms.lose(0);
    const happenings = new Map<string, { fromMs: number; toMs: number }>();
    const acts: (() => Promise<void>)[] = [];
    const gather = async (roomId: string) => {
      const cast: Cast[] = [];
      for (const event of wanted) {
        const { size, how, happen } = EVENTS[event];
        const person = await begin(rooms, await browser.page(), roomId, event, how, size);
        const name = `${browserName}, ${event}`;
        cast.push({ name, person });
        acts.push(async () => {
          const from = Date.now();
          await happen(rooms, person.page, roomId, event, browserName);
          happenings.set(name, { fromMs: from, toMs: Date.now() });
        });
      }
      return cast;
    };
    const everybody = await record(`${browserName}-events`, gather, async () => {
      await Bun.sleep(part);
      await Promise.all(acts.map((act) => act()));
      await Bun.sleep(part);
    });
    for (const one of everybody) {
      note(one, (2 * part) / 1_000);
      const during = happenings.get(one.name) ?? { fromMs: 0, toMs: 0 };
      const madeAt = (second: number) => one.person.made[second]?.flashAt ?? 0;
      for (const kind of ["video", "audio"] as const) {
        const before = laterBy(
          one.found.filter(({ second }) => madeAt(second) < during.fromMs),
          kind,
        );
        const after = laterBy(
          one.found.filter(({ second }) => madeAt(second) > during.toMs),
          kind,
        );
        const what = `${one.name}: ${kind} moved by`;
        figures.push({ what, value: Math.abs(after - before), unit: "ms", goal: { atMost: TOGETHER_MS } });
      }
    }
  } finally {
    await browser.close();
  }
}

try {
  for (const browserName of BROWSERS) for (const loss of LOSSES) await codecsAt(browserName, loss);
  for (const browserName of BROWSERS) await eventsIn(browserName);
} finally {
  await rooms.close();
}
const missed = figures.filter(({ value, goal }) => goal && !isMet(value, goal)).map(({ what }) => what);
report("recordings-matrix", figures, { seconds: Number(seconds), skipped: [...new Set(skipped)], missed, outcomes });
process.exit();
