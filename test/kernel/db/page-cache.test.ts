import { heapStats } from "bun:jsc";
import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
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
