/** people: export and erasure of a person among a million messages, while others send. `bin/bench people [MESSAGES]` */
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stoa } from "../cli/stoa.ts";
import { prepareData, type Served, served } from "../ops/served.ts";
import { type Measured, percentile, report } from "./harness/report.ts";
import { inFile, occurrences } from "./people/bytes.ts";
import { EVERY, fillHistory, WORD, ZOE } from "./people/fill.ts";
import { type Sends, steadySends } from "./people/sends.ts";

const [messages = 1_000_000] = process.argv.slice(2).map(Number);
const CONVERSATIONS = 100;
const BEFORE_MS = 10_000;
const LOOK_EVERY_MS = 100;
/** An overview counts everything: it is itself some work. */
const ASK_EVERY_MS = 2_000;
const TRACES = [ZOE, WORD];

const work = mkdtempSync(join(tmpdir(), "stoa-people-"));
const dataDir = join(work, "data");
const figures: Measured[] = [];
let server: Served | null = null;
try {
  await prepareData(dataDir);
  server = await served(dataDir, ["--media-workers", "1", "--chat-frame-rate-limit", "1000000"]);
  const rooms: string[] = [];
  for (let n = 0; n < CONVERSATIONS; n++) rooms.push(await server.conversation(`hall-${n}`, ZOE, "bob"));
  await sendFile(server, rooms[0] ?? "");
  await server.stop();

  const fillingAt = performance.now();
  fillHistory(dataDir, rooms, messages);
  const databaseMiB = statSync(join(dataDir, "stoa.db")).size / 2 ** 20;
  console.log(`${messages} messages, ${Math.round(databaseMiB)} MiB, after ${seconds(fillingAt)} s`);
  const older = join(work, "older.tar");
  await expectSuccess(["backup", older, "--data-dir", dataDir]);

  server = await served(dataDir, ["--media-workers", "1", "--chat-frame-rate-limit", "1000000"]);
  const { body: chat } = await server.call("POST", "/v1/chat/tokens", { userId: "bob", ttlSeconds: 21_600 });
  const sends = await steadySends(server.url, chat.token, rooms[1] ?? "");
  const quiet = await during(server, sends, () => Bun.sleep(BEFORE_MS));
  figures.push({ what: "sends before: p99", value: quiet.p99Ms, unit: "ms" });

  const person = `/v1/people/${ZOE}`;
  const exported = await during(server, sends, async ({ call }) => {
    const { body } = await call("POST", `${person}/exports`);
    await until(async () => (await call("GET", `${person}/exports/${body.id}`)).body.status !== "RUNNING");
  });
  const [made] = (await server.call("GET", person)).body.exports as { status: string; bytes: number }[];
  if (made?.status !== "READY") throw new Error(`the export is ${made?.status}`);
  figures.push(...figuresOf("export", exported, quiet));
  figures.push({ what: "export: size", value: made.bytes / 2 ** 20, unit: "MiB" });

  const erased = await during(server, sends, async ({ call }) => {
    await call("DELETE", person);
    await until(async () => (await call("GET", person)).body.erasure?.status === "DONE");
  });
  figures.push(...figuresOf("erasure", erased, quiet));
  figures.push({ what: "sends refused", value: sends.refused.length, unit: "", goal: { atMost: 0 } });
  sends.stop();

  // While it runs: the write-ahead log counts as well.
  const left = occurrences(dataDir, TRACES);
  figures.push({ what: "traces in the data after it", value: total(left), unit: "", goal: { atMost: 0 } });
  const newer = join(work, "newer.tar");
  await expectSuccess(["backup", newer, "--data-dir", dataDir]);
  figures.push({ what: "traces in a new backup", value: inFile(newer, TRACES), unit: "", goal: { atMost: 0 } });
  await server.stop();
  const stopped = occurrences(dataDir, TRACES);
  figures.push({ what: "traces after a stop", value: total(stopped), unit: "", goal: { atMost: 0 } });

  const inOlder = inFile(older, TRACES);
  if (inOlder < messages / EVERY) throw new Error(`the older backup holds ${inOlder} traces: nothing is shown by it`);
  const restoringAt = performance.now();
  const told = await expectSuccess(["restore", older, "--data-dir", dataDir]);
  console.log(told.trim());
  figures.push({ what: "restore of an older backup", value: seconds(restoringAt), unit: "s" });
  const restored = occurrences(dataDir, TRACES);
  figures.push({ what: "traces after that", value: total(restored), unit: "", goal: { atMost: 0 } });
  report("people", figures, { messages, databaseMiB, left, stopped, restored, refused: [...new Set(sends.refused)] });
} finally {
  server?.child.kill("SIGKILL");
  rmSync(work, { recursive: true, force: true });
  rmSync(`${dataDir}.key`, { force: true });
}
process.exit();

type Stretch = { p99Ms: number; worstMs: number; seconds: number; memoryMiB: number };

/** The times of sends and the memory while something is done. */
async function during(running: Served, sends: Sends, work: (server: Served) => Promise<unknown>): Promise<Stretch> {
  const at = performance.now();
  let memoryMiB = ownMemoryMiB(running.child.pid);
  const timer = setInterval(() => {
    memoryMiB = Math.max(memoryMiB, ownMemoryMiB(running.child.pid));
  }, LOOK_EVERY_MS);
  sends.take();
  await work(running);
  clearInterval(timer);
  const times = sends.take();
  return { p99Ms: percentile(times, 0.99), worstMs: Math.max(...times), seconds: seconds(at), memoryMiB };
}

function figuresOf(what: string, stretch: Stretch, quiet: Stretch): Measured[] {
  return [
    { what: `${what}: takes`, value: stretch.seconds, unit: "s" },
    { what: `${what}: sends meanwhile, p99`, value: stretch.p99Ms, unit: "ms", goal: { atMost: 50 } },
    { what: `${what}: sends meanwhile, worst`, value: stretch.worstMs, unit: "ms" },
    {
      what: `${what}: memory more than before`,
      value: stretch.memoryMiB - quiet.memoryMiB,
      unit: "MiB",
      goal: { atMost: 128 },
    },
  ];
}

/** The memory of the process itself, without the system's cache of the database file. */
function ownMemoryMiB(pid: number): number {
  return Number(/RssAnon:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
}

async function sendFile({ call }: Served, room: string): Promise<void> {
  const content = `bytes of ${WORD}`;
  const file = { filename: `${WORD}.txt`, mimeType: "text/plain", size: content.length, uploaderId: ZOE };
  const { body } = await call("POST", `/v1/chat/conversations/${room}/attachments`, file);
  await fetch(body.uploadUrl, { method: "PUT", body: content, headers: { "content-type": "text/plain" } });
  await call("POST", `/v1/chat/attachments/${body.id}/complete`);
  await call("POST", `/v1/chat/conversations/${room}/messages`, { senderId: ZOE, attachmentId: body.id });
}

async function expectSuccess(args: string[]): Promise<string> {
  const { code, out, err } = await stoa(args);
  if (code !== 0) throw new Error(`stoa ${args.join(" ")}: ${err}`);
  return out;
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await Bun.sleep(ASK_EVERY_MS);
}

function seconds(sinceMs: number): number {
  return Math.round(performance.now() - sinceMs) / 1_000;
}

function total(found: Record<string, number>): number {
  return Object.values(found).reduce((sum, count) => sum + count, 0);
}
