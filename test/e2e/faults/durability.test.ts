import { Database } from "bun:sqlite";
import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { closeDatabase, openDatabase } from "../../../src/kernel/db/open.ts";

const folder = mkdtempSync(join(tmpdir(), "stoa-durability-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const PROGRAM = join(import.meta.dir, "writer-process.ts");
const ROUNDS = 20;

function* lines(chunks: Iterable<string>): Generator<string> {
  let rest = "";
  for (const chunk of chunks) {
    const parts = (rest + chunk).split("\n");
    rest = parts.pop() ?? "";
    yield* parts;
  }
}

/** Runs the writer until it has acknowledged `target` writes, kills it without warning, returns what it acknowledged. */
async function runAndKill(path: string, first: number, target: number): Promise<number[]> {
  const child = Bun.spawn([process.execPath, PROGRAM, path, "FULL", String(first)], { stdout: "pipe" });
  const chunks: string[] = [];
  const decoder = new TextDecoder();
  let seen = 0;
  for await (const chunk of child.stdout) {
    const text = decoder.decode(chunk, { stream: true });
    chunks.push(text);
    seen += text.split("\n").length - 1;
    if (seen > target) child.kill("SIGKILL");
  }
  await child.exited;
  return [...lines(chunks)].filter((line) => /^\d+$/.test(line)).map(Number);
}

test(`kill -9 amid 1,000 concurrent writes, ${ROUNDS} rounds: whatever was acknowledged is there`, async () => {
  const path = join(folder, "killed.db");
  let acknowledged = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const numbers = await runAndKill(path, round * 1_000_000, 500 + ((round * 977) % 3000));
    expect(numbers.length).toBeGreaterThan(400);
    const db = new Database(path);
    const found = new Set(
      db
        .query<{ n: number }, []>("SELECT n FROM notes")
        .all()
        .map(({ n }) => n),
    );
    expect(numbers.filter((n) => !found.has(n))).toEqual([]);
    expect(db.query("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
    db.close();
    acknowledged += numbers.length;
  }
  console.log(`      ${acknowledged} acknowledged writes over ${ROUNDS} kills, 0 lost`);
}, 120_000);

/** The number of writes that are acknowledged although the disk refuses every fsync after the ninth. */
async function acknowledgedWithoutDisk(durability: "FULL" | "OFF"): Promise<number> {
  const path = join(folder, `no-fsync-${durability}.db`);
  const made = openDatabase(path);
  made.$client.run("CREATE TABLE notes (n INTEGER PRIMARY KEY) STRICT");
  closeDatabase(made);
  const inject = "inject=fsync,fdatasync:error=EIO:when=10+";
  const child = Bun.spawn(
    [
      "strace",
      "-f",
      "-qq",
      "-o",
      "/dev/null",
      "-e",
      "trace=fsync,fdatasync",
      "-e",
      inject,
      process.execPath,
      PROGRAM,
      path,
      durability,
      "0",
      "20000",
    ],
    { stdout: "pipe", stderr: "ignore" },
  );
  const output = await new Response(child.stdout).text();
  await child.exited;
  return output.split("\n").filter((line) => /^\d+$/.test(line)).length;
}

test("a disk that refuses fsync gets no acknowledgement; without synchronous=FULL the same check fails", async () => {
  const safe = await acknowledgedWithoutDisk("FULL");
  const control = await acknowledgedWithoutDisk("OFF");
  // These writes shared the commits that were still synced, at most nine of them.
  expect(safe).toBeGreaterThan(0);
  expect(safe).toBeLessThanOrEqual(9 * 512);
  expect(control).toBe(20_000);
}, 120_000);
