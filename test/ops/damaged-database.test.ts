// needs: strace
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import {
  closeSync,
  copyFileSync,
  cpSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openDatabase } from "../../src/kernel/db/open.ts";
import { checkDatabase } from "../../src/ops/backup/check-database.ts";
import { stoa } from "../cli/stoa.ts";
import { keyPath, prepareData, type Served, served } from "./served.ts";

const PAGE_BYTES = 4_096;
const work = mkdtempSync(join(tmpdir(), "stoa-damaged-"));
const whole = join(work, "whole");
let dataDir: string;
let server: Served;
let room: string;
let texts: (string | null)[];

/** One conversation of some hundred pages, in a database whose log is empty. */
beforeAll(async () => {
  await prepareData(whole);
  server = await served(whole);
  room = await server.conversation("damaged", "alice");
  const { client } = await server.member("alice", room);
  const send = (n: number) =>
    client.ask("message.send", { room, text: `${n} ${"x".repeat(3_000)}`, clientMessageId: `m${n}` });
  for (let n = 0; n < 150; n += 15) await Promise.all(Array.from({ length: 15 }, (_, i) => send(n + i)));
  texts = await server.texts(room, "alice");
  await server.stop();
}, 120_000);

beforeEach(async () => {
  dataDir = mkdtempSync(join(work, "data-"));
  cpSync(whole, dataDir, { recursive: true });
  cpSync(keyPath(whole), keyPath(dataDir));
  server = await served(dataDir);
}, 60_000);

afterEach(async () => void (await server.stop("SIGKILL")));
afterAll(() => rmSync(work, { recursive: true, force: true }));

const path = () => join(dataDir, "stoa.db");

async function readiness(): Promise<{ status: number; reasons: Record<string, string> }> {
  const response = await fetch(`${server.url}/readyz`);
  return { status: response.status, reasons: ((await response.json()) as { reasons: Record<string, string> }).reasons };
}

async function history(): Promise<{ status: number; texts: string[] }> {
  const { body } = await server.call("POST", "/v1/chat/tokens", { userId: "alice" });
  const reply = await server.call("GET", `/v1/chat/conversations/${room}/messages?limit=100`, undefined, body.token);
  return { status: reply.status, texts: (reply.body.data ?? []).map(({ text }: { text: string }) => text) };
}

/** All pages that hold a part of a message. */
function overwriteMessagePages(): void {
  const bytes = readFileSync(path());
  const file = openSync(path(), "r+");
  let overwritten = 0;
  for (let page = bytes.length / PAGE_BYTES - 1; page > 1; page--) {
    if (!bytes.subarray(page * PAGE_BYTES, (page + 1) * PAGE_BYTES).includes("xxxxxxxx")) continue;
    writeSync(file, Buffer.alloc(PAGE_BYTES, 0xff), 0, PAGE_BYTES, page * PAGE_BYTES);
    overwritten++;
  }
  closeSync(file);
  expect(overwritten).toBeGreaterThan(0);
}

async function metric(line: RegExp): Promise<number> {
  return Number(line.exec(await (await fetch(`${server.url}/metrics`)).text())?.[1] ?? 0);
}

/** The first pages of a table and its indexes, which no start reads. */
function overwriteMembers(): void {
  const { $client: client } = openDatabase(path(), { readonly: true });
  const roots = client
    .query<{ page: number }, []>("SELECT rootpage AS page FROM sqlite_schema WHERE tbl_name = 'conversation_members'")
    .all();
  client.close();
  const file = openSync(path(), "r+");
  for (const { page } of roots) writeSync(file, Buffer.alloc(PAGE_BYTES, 0xff), 0, PAGE_BYTES, (page - 1) * PAGE_BYTES);
  closeSync(file);
}

test("a page that was overwritten is noticed when it is read, and readiness says what to do", async () => {
  await server.stop();
  overwriteMembers();
  server = await served(dataDir);
  expect((await readiness()).status).toBe(200);
  const read = await history();
  expect(read).toEqual({ status: 500, texts: [] });
  const { status, reasons } = await readiness();
  expect(status).toBe(503);
  expect(reasons.database_corrupt).toMatch(/^the database is damaged \(SQLITE_CORRUPT\): .*stoa restore/);
  expect(await metric(/^stoa_sqlite_errors_total\{code="SQLITE_CORRUPT"\} (\d+)/m)).toBeGreaterThan(0);
  expect(await metric(/^stoa_database_damaged (\d)/m)).toBe(1);
}, 60_000);

test("one flipped bit in a stored text is noticed within seconds of being read, and is not served", async () => {
  await server.stop();
  const at = readFileSync(path()).indexOf("149 xxxxxxxx") + 100;
  const file = openSync(path(), "r+");
  writeSync(file, Buffer.from("y"), 0, 1, at);
  closeSync(file);
  server = await served(dataDir);
  const touchedAt = Date.now();
  expect(await history()).toEqual({ status: 500, texts: [] });
  const { status, reasons } = await readiness();
  expect([status, Date.now() - touchedAt < 10_000]).toEqual([503, true]);
  expect(reasons.database_corrupt).toMatch(/^the database is damaged \(SQLITE_CORRUPT\): .*stoa restore/);
}, 60_000);

test("a file that was cut off while the server runs is noticed when it is read", async () => {
  truncateSync(path(), Math.floor(statSync(path()).size / PAGE_BYTES / 2) * PAGE_BYTES);
  expect((await history()).status).toBe(500);
  const { status, reasons } = await readiness();
  expect([status, Object.keys(reasons)]).toEqual([503, ["database_corrupt"]]);
  expect(server.child.exitCode).toBeNull();
}, 60_000);

/** The files are looked at every two seconds, whether a request comes or not. */
async function untilNotReady(): Promise<string> {
  let { status, reasons } = await readiness();
  while (status === 200) ({ status, reasons } = await readiness());
  return reasons.database_corrupt ?? "";
}

test("a deleted write-ahead log is noticed, and nothing acknowledged is lost by it", async () => {
  const { client } = await server.member("alice", room);
  const send = (text: string) => client.ask("message.send", { room, text, clientMessageId: text });
  expect((await send("last")).type).toBe("ack");
  rmSync(`${path()}-wal`);
  expect(await untilNotReady()).toContain("stoa.db-wal was deleted or replaced");
  // A write that would exist only in the deleted file is not acknowledged.
  expect((await send("too late")).type).toBe("error");
  await server.stop("SIGKILL");
  server = await served(dataDir);
  expect(await server.texts(room, "alice")).toEqual([...texts.slice(1), "last"]);
}, 60_000);

test("a deleted index of the log is noticed, and nothing acknowledged is lost by it", async () => {
  const { client } = await server.member("alice", room);
  const send = (text: string) => client.ask("message.send", { room, text, clientMessageId: text });
  expect((await send("last")).type).toBe("ack");
  rmSync(`${path()}-shm`);
  expect(await untilNotReady()).toContain("stoa.db-shm was deleted or replaced");
  expect((await send("too late")).type).toBe("error");
  await server.stop("SIGKILL");
  server = await served(dataDir);
  expect(await server.texts(room, "alice")).toEqual([...texts.slice(1), "last"]);
}, 60_000);

test("a truncated write-ahead log is noticed, and nothing wrong is served", async () => {
  const { client } = await server.member("alice", room);
  const send = (text: string) => client.ask("message.send", { room, text, clientMessageId: text });
  // While a reader uses an older state, commits stay in the log. A log that was copied completely is restarted by the next commit,
  // and deleting it would then lose nothing.
  const { $client: reader } = openDatabase(path(), { readonly: true });
  reader.run("BEGIN");
  reader.query("SELECT count(*) FROM installation").get();
  expect((await send("last")).type).toBe("ack");
  truncateSync(`${path()}-wal`, 0);
  const touchedAt = Date.now();
  expect(await untilNotReady()).toMatch(/stoa\.db-wal was truncated, .*stoa restore/);
  expect(Date.now() - touchedAt).toBeLessThan(10_000);
  expect((await send("too late")).type).toBe("error");
  const read = await history();
  expect(read.texts.filter((text) => ![...texts, "last"].includes(text))).toEqual([]);
  reader.close();
}, 60_000);

test("a database file that was deleted or replaced is noticed, and is whole in its descriptor", async () => {
  const { client } = await server.member("alice", room);
  const send = (text: string) => client.ask("message.send", { room, text, clientMessageId: text });
  expect((await send("last")).type).toBe("ack");
  rmSync(path());
  const { pid } = server.child;
  expect(await untilNotReady()).toContain(`stoa.db was deleted or replaced, so that nothing more is written`);
  expect(await metric(/^stoa_database_damaged (\d)/m)).toBe(1);
  expect((await send("too late")).type).toBe("error");
  const deleted = readdirSync(`/proc/${pid}/fd`)
    .map((fd) => `/proc/${pid}/fd/${fd}`)
    .find((link) => readlinkSync(link) === `${path()} (deleted)`);
  copyFileSync(deleted ?? "", path());
  await server.stop("SIGKILL");
  for (const suffix of ["-wal", "-shm"]) rmSync(path() + suffix, { force: true });
  server = await served(dataDir);
  expect(await server.texts(room, "alice")).toEqual([...texts.slice(1), "last"]);
}, 60_000);

test("an error of the device fails readiness while it lasts, and reads are refused", async () => {
  const pid = String(server.child.pid);
  const refuse = ["-e", "trace=pread64", "-e", "inject=pread64:error=EIO"];
  const strace = Bun.spawn(["strace", "-f", "-qq", "-o", "/dev/null", ...refuse, "-p", pid]);
  let read = await history().catch(() => ({ status: 0, texts: [] as string[] }));
  while (read.status === 200) read = await history();
  expect(read.texts).toEqual([]);
  const { status, reasons } = await readiness();
  expect(status).toBe(503);
  expect(reasons.database_corrupt).toMatch(/SQLITE_IOERR|SQLITE_CORRUPT/);
  strace.kill("SIGINT");
  await strace.exited;
}, 60_000);

test("the daily check finds damage that no request has touched", async () => {
  await server.stop();
  expect(await checkDatabase(path(), async () => {})).toBeNull();
  overwriteMessagePages();
  expect(await checkDatabase(path(), async () => {})).toMatch(/messages|SQLITE_CORRUPT/);
});

test("a start with a file that is no database says which backup to restore", async () => {
  await server.stop();
  writeFileSync(path(), Buffer.alloc(PAGE_BYTES * 4, 0xff));
  const start = await stoa(["serve", "--port", "0", "--media-udp-port", "0", "--data-dir", dataDir]);
  expect(start.code).toBe(1);
  expect(start.err).toContain(`the database in ${dataDir} is damaged (SQLITE_NOTADB). Restore a backup`);
  const env = { COMMIT_LOG_URL: "postgres://127.0.0.1:1/none", STOA_SECRET: "x".repeat(32) };
  const member = await stoa(["serve", "--port", "0", "--media-udp-port", "0", "--data-dir", dataDir], { env });
  expect(member.code).toBe(1);
  expect(member.err).toBe(
    `stoa: the database in ${dataDir} is damaged (SQLITE_NOTADB). Move ${path()} away, and the server fetches a copy from another one.\n`,
  );
}, 60_000);
