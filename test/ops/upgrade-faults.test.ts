// suite: soak
// runs: alone
import { Database } from "bun:sqlite";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import {
  closeSync,
  cpSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PROGRAM, stoa } from "../cli/stoa.ts";
import { type Checkout, checkoutOf } from "../cluster/checkout.ts";
import { mountSmall } from "./machine.ts";
import { type Body, keyPath, prepareData, type Served, served } from "./served.ts";

const work = mkdtempSync(join(tmpdir(), "stoa-upgrade-faults-"));
const OPTIONS = ["--media-workers", "1", "--public-ip", "127.0.0.1", "--chat-request-rate-limit", "100000"];
const SERVES_WITHIN_MS = 60_000;
const log = join(work, "log");

/** More rows than the cache holds, so that a part of them is in the log before the migration is over. */
const SLOW_MIGRATION = `CREATE TABLE filled (id INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;
INSERT INTO filled (data)
WITH RECURSIVE counter (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counter WHERE n < ROWS)
SELECT randomblob(200) FROM counter;
`;
const ROWS = 500_000;
const PARTLY_MIGRATED_BYTES = 8 * 1_024 * 1_024;

let migrating: Checkout;
beforeAll(async () => {
  migrating = checkoutOf("0.3.0", { "9999_slow": SLOW_MIGRATION.replace("ROWS", String(ROWS)) });
  await prepareData(join(work, "prepared"));
});
afterAll(() => {
  migrating.remove();
  rmSync(work, { recursive: true, force: true });
});

let dataDir = "";
/** What the supervisor starts: the program that is installed now. */
let installed: readonly string[] = PROGRAM;
let server: Served;
const started = new Set<number>();

const lines = () => (existsSync(log) ? readFileSync(log, "utf8").split("\n") : []);
const logged = (message: string, times = 1) => lines().filter((line) => line.includes(message)).length >= times;
const noted = (file: string) => existsSync(join(dataDir, file)) && readFileSync(join(dataDir, file), "utf8");

/** The processes that one has started and that run. */
function childrenOf(pid: number): number[] {
  try {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
    return text.split(" ").flatMap((child) => (child.trim() === "" ? [] : [Number(child)]));
  } catch {
    return [];
  }
}

function kill(...pids: number[]): void {
  for (const pid of pids) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // The process has ended.
    }
  }
}

const newerOf = (older: number) => childrenOf(older).filter((pid) => commandOf(pid).includes("--take-over"));

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}

/** Takes all space of the file system. */
function fill(path: string): void {
  const file = openSync(path, "w");
  try {
    for (let bytes = 65_536; bytes >= 1; ) {
      try {
        writeSync(file, new Uint8Array(bytes));
      } catch {
        bytes = Math.floor(bytes / 2);
      }
    }
  } finally {
    closeSync(file);
  }
}

type Point = { when(older: number): boolean; kill(older: number, newer: number[]): void };
const older = (pid: number) => kill(pid);
const newer = (_: number, pids: number[]) => kill(...pids);
const both = (pid: number, pids: number[]) => kill(pid, ...pids);

const isStarted = (pid: number) => newerOf(pid).length > 0;
const isChecking = () => logged("media worker: listening", 2);
const isReleased = () => existsSync(join(dataDir, "older")) && readdirSync(join(dataDir, "older")).length > 0;
const isServing = () => logged("server: listening", 2);
const isDone = () => Boolean(noted("upgrade.json") && String(noted("upgrade.json")).includes('"done"'));

const POINTS: Record<string, Point> = {
  "the older process, asked for an upgrade": { when: () => logged("upgrade: starting"), kill: older },
  "the newer process, just started": { when: isStarted, kill: newer },
  "the older process, which has just started the newer one": { when: isStarted, kill: older },
  "the newer process, which checks the ports": { when: isChecking, kill: newer },
  "the older process, while the newer one checks the ports": { when: isChecking, kill: older },
  "the newer process, which gets the data": { when: isReleased, kill: newer },
  "the older process, which has let go of the data": { when: isReleased, kill: older },
  "both, between which the data is": { when: isReleased, kill: both },
  "the newer process, which has begun to listen": { when: isServing, kill: newer },
  "the older process, while the newer one begins to listen": { when: isServing, kill: older },
  "the newer process, which has taken over": { when: isDone, kill: newer },
  "the older process, which has been replaced": { when: isDone, kill: older },
};

const isMigrating = () =>
  (statSync(join(dataDir, "stoa.db-wal"), { throwIfNoEntry: false })?.size ?? 0) > PARTLY_MIGRATED_BYTES;
/** The migration is complete, and the newer process does not serve yet. */
const hasMigrated = () => filledRows() === ROWS;

/** `serves` is the version that serves afterwards. The supervisor starts the newer one, which is the one that is installed. */
const DURING_MIGRATION: Record<string, Point & { serves: "older" | "newer" }> = {
  "the newer process, which migrates": { when: isMigrating, kill: newer, serves: "older" },
  "the older process, while the newer one migrates": { when: isMigrating, kill: older, serves: "newer" },
  "both, while the newer one migrates": { when: isMigrating, kill: both, serves: "newer" },
  "the newer process, which has just migrated": { when: hasMigrated, kill: newer, serves: "newer" },
  "the older process, while the newer one has just migrated": { when: hasMigrated, kill: older, serves: "newer" },
  "both, when the newer one has just migrated": { when: hasMigrated, kill: both, serves: "newer" },
};

/** The rows that the migration has committed; null before there is a table for them. */
function filledRows(): number | null {
  const db = new Database(join(dataDir, "stoa.db"), { readonly: true });
  try {
    return db.query<{ count: number }, []>("SELECT count(*) AS count FROM filled").get()?.count ?? null;
  } catch {
    return null;
  } finally {
    db.close();
  }
}

/** The supervisor: starts the server again when nothing answers and its process has ended. */
async function supervised(port: string): Promise<void> {
  const end = performance.now() + SERVES_WITHIN_MS;
  while (performance.now() < end) {
    const answers = await server.call("GET", "/healthz").catch(() => null);
    if (answers?.status === 200) return;
    const note = noted("serve.json");
    const runs = note && commandOf(JSON.parse(note).pid) !== "";
    const others = [...started].some((pid) => commandOf(pid) !== "");
    if (!runs && !others && newerAnywhere().length === 0) await start("--port", port);
    await Bun.sleep(50);
  }
  throw new Error(`nothing serves: ${lines().slice(-20).join("\n")}`);
}

const newerAnywhere = () =>
  readdirSync("/proc")
    .map(Number)
    .filter((pid) => pid > 0 && commandOf(pid).includes(dataDir) && commandOf(pid).includes("--take-over"));

async function start(...args: string[]): Promise<void> {
  const command = ["bash", "-c", `exec "$@" > >(exec tee -p -a ${log}) 2>> ${log}`, "bash", ...installed];
  server = await served(dataDir, [...OPTIONS, ...args], command);
  started.add(server.child.pid);
}

/** Posts messages until `stop`. */
async function postings() {
  const chat = await server.conversation("open", "alice");
  const { body } = await server.call("POST", "/v1/chat/tokens", { userId: "alice" });
  const token = body.token as string;
  const posted: string[] = [];
  let isStopped = false;
  const path = `/v1/chat/conversations/${chat}/messages`;
  const load = (async () => {
    for (let i = 0; !isStopped; i++) {
      const text = `message ${i}`;
      const sent = await server.call("POST", path, { type: "text", text }, token).catch(() => null);
      if (sent?.status === 201) posted.push(text);
      else await Bun.sleep(20);
    }
  })();
  const more = async () => {
    const count = posted.length;
    while (posted.length < count + 10) await Bun.sleep(5);
  };
  await more();
  return {
    more,
    /** Every message that was answered is there, none is there twice, and the file is whole. */
    async expectComplete() {
      isStopped = true;
      await load;
      const history: string[] = [];
      for (let before = ""; ; ) {
        const query = `limit=100${before === "" ? "" : `&before=${before}`}`;
        const { body } = await server.call("GET", `${path}?${query}`, undefined, token);
        history.push(...body.data.map(({ text }: Body) => text));
        before = body.nextCursor ?? "";
        if (before === "" || body.data.length === 0) break;
      }
      expect(posted.filter((text) => !history.includes(text))).toEqual([]);
      expect(new Set(history).size).toBe(history.length);
      kill(...started, ...newerAnywhere());
      const db = new Database(join(dataDir, readdirSync(dataDir).find((name) => name.endsWith(".db")) ?? ""));
      expect(db.query("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
      db.close();
    },
  };
}

describe("faults during an upgrade", () => {
  afterEach(() => {
    kill(...started, ...newerAnywhere());
    started.clear();
    installed = PROGRAM;
    rmSync(log, { force: true });
  });

  /** Kills what a point says when it is reached during an upgrade. Afterwards a version serves, with all data. */
  async function killAt({ when, kill: end }: Point, program: readonly string[]): Promise<void> {
    dataDir = mkdtempSync(join(work, "data-"));
    cpSync(join(work, "prepared"), dataDir, { recursive: true });
    cpSync(keyPath(join(work, "prepared")), keyPath(dataDir));
    await start();
    const first = server.child.pid;
    const { port } = new URL(server.url);
    const load = await postings();
    installed = program;
    const [binary = ""] = program === PROGRAM ? [] : program;
    const upgrade = stoa(["upgrade", "--data-dir", dataDir, ...(binary === "" ? [] : ["--binary", binary])]);
    let isOver = false;
    void upgrade.finally(() => {
      isOver = true;
    });
    while (!when(first) && !isOver) await Bun.sleep(1);
    expect(when(first)).toBe(true);
    end(first, newerOf(first));
    await supervised(port);
    await upgrade;
    await supervised(port);
    await load.more();
    await load.expectComplete();
  }

  test.each(Object.entries(POINTS))(
    "kill -9 of %s: a version serves, with all data",
    (_, point) => killAt(point, PROGRAM),
    180_000,
  );

  test.each(Object.entries(DURING_MIGRATION))(
    "kill -9 of %s: a version serves, with all data",
    async (_, point) => {
      await killAt(point, [migrating.program]);
      // Of a migration that was cut off, nothing is left.
      expect(filledRows()).toBe(point.serves === "newer" ? ROWS : null);
    },
    180_000,
  );

  test("on a full disk the server continues as it was, and is upgraded when there is space again", async () => {
    dataDir = mkdtempSync(join(work, "small-"));
    const unmount = await mountSmall(dataDir, "64m");
    try {
      cpSync(join(work, "prepared"), dataDir, { recursive: true });
      cpSync(keyPath(join(work, "prepared")), keyPath(dataDir));
      await start();
      const { pid } = server.child;
      const load = await postings();
      fill(join(dataDir, "filler"));
      const full = `stoa: the disk of ${dataDir} is full.\n`;
      expect(await stoa(["upgrade", "--data-dir", dataDir])).toEqual({ code: 1, out: "", err: full });
      process.kill(pid, "SIGUSR2");
      while (!logged("upgrade: failed")) await Bun.sleep(5);
      expect((await server.call("GET", "/healthz")).status).toBe(200);
      expect(newerOf(pid)).toEqual([]);
      rmSync(join(dataDir, "filler"));
      expect(await stoa(["upgrade", "--data-dir", dataDir])).toMatchObject({ code: 0, err: "" });
      expect((await server.call("GET", "/healthz")).status).toBe(200);
      await load.more();
      await load.expectComplete();
    } finally {
      kill(...started, ...newerAnywhere());
      await unmount();
    }
  }, 180_000);
});
