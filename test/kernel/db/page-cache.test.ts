import { heapStats } from "bun:jsc";
import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { RecordingConnection } from "../../../src/kernel/db/changesets.ts";
import { openDatabase } from "../../../src/kernel/db/open.ts";
import { releaseMemory, SplitClient } from "../../../src/kernel/db/split-client.ts";
import { closeRuntime, createRuntime } from "../../../src/kernel/runtime.ts";
import { fakeClock } from "../../harness/clock.ts";
import { testConfig } from "../../harness/test-config.ts";

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "stoa-page-cache-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

type Bin = { block_size: number; current: number };

/** Blocks of the size of a page with SQLite's header; Bun's SQLite uses the same allocator. */
function pagesMiB(): number {
  const { malloc_bins: bins } = (heapStats() as unknown as { mimalloc: { malloc_bins: Bin[] } }).mimalloc;
  return bins.reduce((sum, bin) => sum + (bin.block_size === 5_120 ? bin.current * bin.block_size : 0), 0) / 1_048_576;
}

const LARGE = "x".repeat(60_000);

test("cached pages of a burst of commits are released once the server is idle", async () => {
  const clock = fakeClock();
  const runtime = createRuntime(testConfig({ DATA_DIR: folder }), { timers: clock, now: clock.now });
  const { $client: client } = runtime.db;
  client.run("CREATE TABLE notes (text TEXT) STRICT");
  const before = pagesMiB();
  for (let n = 0; n < 500; n++) await runtime.write(() => client.run("INSERT INTO notes VALUES (?)", [LARGE]));
  expect(pagesMiB() - before).toBeGreaterThan(20);
  // Fifty calls commit this often in fifteen seconds.
  for (let n = 0; n < 165; n++) await runtime.write(() => client.run("UPDATE notes SET text = text WHERE rowid = 1"));
  clock.advance(15_000);
  expect(pagesMiB() - before).toBeLessThan(2);
  expect(client.query("SELECT count(*) AS count FROM notes").get()).toEqual({ count: 500 });
  await closeRuntime(runtime);
});

test("both connections release their pages when there is a commit log", async () => {
  const path = join(folder, "stoa.db");
  const client = new SplitClient(new RecordingConnection(path), openDatabase(path).$client);
  const { recording, reader } = client;
  recording.exec("CREATE TABLE notes (text TEXT) STRICT");
  const before = pagesMiB();
  const insert = recording.prepare("INSERT INTO notes VALUES (?)");
  for (let n = 0; n < 300; n++) insert.run(LARGE);
  expect(reader.query("SELECT sum(length(text)) AS sum FROM notes").get()).toEqual({ sum: 300 * LARGE.length });
  expect(pagesMiB() - before).toBeGreaterThan(20);
  releaseMemory(client);
  expect(pagesMiB() - before).toBeLessThan(2);
  client.close();
});

/** The resident part of the mapped database file. */
function mappedMiB(path: string): number {
  const mappings = readFileSync("/proc/self/smaps", "utf8").split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m);
  const own = mappings.filter((mapping) => mapping.split("\n", 1)[0]?.endsWith(` ${path}`));
  return own.reduce((sum, mapping) => sum + Number(/^Rss: +(\d+) kB$/m.exec(mapping)?.[1]), 0) / 1_024;
}

test.skipIf(process.platform !== "linux")(
  "the mapped file is unmapped on idle, also while a query runs, and can be read again",
  async () => {
    const clock = fakeClock();
    const runtime = createRuntime(testConfig({ DATA_DIR: folder }), { timers: clock, now: clock.now });
    const { $client: client } = runtime.db;
    const path = join(folder, "stoa.db");
    client.run("CREATE TABLE notes (text TEXT) STRICT");
    for (let n = 0; n < 500; n++) await runtime.write(() => client.run("INSERT INTO notes VALUES (?)", [LARGE]));
    client.run("PRAGMA wal_checkpoint(TRUNCATE)");
    const all = client.query("SELECT sum(unicode(substr(text, -1))) AS sum FROM notes");
    const sum = 500 * "x".charCodeAt(0);
    expect(all.get()).toEqual({ sum });
    expect(mappedMiB(path)).toBeGreaterThan(20);
    // A query is still running.
    const reading = client.query<{ text: string }, []>("SELECT text FROM notes").iterate();
    expect(reading.next().value?.text).toBe(LARGE);
    clock.advance(15_000);
    let read = 1;
    for (const { text } of reading) read += text === LARGE ? 1 : 0;
    expect(read).toBe(500);
    for (let n = 0; n < 500; n++) await runtime.write(() => {});
    clock.advance(15_000);
    expect(mappedMiB(path)).toBeLessThan(2);
    expect(all.get()).toEqual({ sum });
    expect(mappedMiB(path)).toBeGreaterThan(20);
    await closeRuntime(runtime);
  },
);
