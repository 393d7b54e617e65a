import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PROGRAM, type RunningStoa, startStoa, stoa } from "../../cli/stoa.ts";
import { createApi } from "../../harness/api.ts";

const ZOE = "zoe.erasable@example";
const WORD = "heliotrope";
const dataDir = mkdtempSync(join(tmpdir(), "stoa-test-"));
const env = {
  DATA_DIR: dataDir,
  HOST: "127.0.0.1",
  PORT: "0",
  MEDIA_UDP_PORT: "0",
  MEDIA_WORKERS: "1",
  PUBLIC_IP: "127.0.0.1",
};
const started: RunningStoa[] = [];
afterAll(() => {
  for (const { child } of started) child.kill("SIGKILL");
  rmSync(dataDir, { recursive: true, force: true });
});

async function serve(): Promise<RunningStoa> {
  const running = await startStoa([...PROGRAM, "serve"], { env });
  started.push(running);
  return running;
}

async function end({ child }: RunningStoa, signal: "SIGKILL" | "SIGTERM"): Promise<void> {
  child.kill(signal);
  await child.exited;
}

const inDatabase = (text: string) => readFileSync(join(dataDir, "stoa.db")).includes(text);

test("[19] an accepted erasure survives kill -9, and a restore of an older backup does not undo it", async () => {
  await stoa(["admin", "create", "op@example.com"], { env, stdin: "a long password\n" });
  const keys = await stoa(["keys", "create", "--project", "mine", "--create-project", "--json"], { env });
  const first = await serve();
  const key = String(JSON.parse(keys.out).key);
  let api = createApi(first.url, key);
  const { body: room } = await api.call("POST", "/v1/chat/conversations", { name: "hall", members: [{ userId: ZOE }] });
  const messages = `/v1/chat/conversations/${room.id}/messages`;
  for (let n = 0; n < 30; n++) await api.call("POST", messages, { senderId: ZOE, text: `${WORD} ${n}` });
  await api.call("POST", messages, { senderId: "bob", text: "still here" });
  const backup = join(dataDir, "older.tar");
  const made = await stoa(["backup", backup], { env });
  expect(made.err).toBe("");
  expect((await api.call("DELETE", `/v1/people/${ZOE}`)).status).toBe(202);
  await end(first, "SIGKILL");

  const second = await serve();
  api = createApi(second.url, key);
  const isDone = async () => {
    const { body } = await api.call("GET", `/v1/people/${ZOE}`);
    return (body.erasure as { status: string } | null)?.status === "DONE" && body.total === 0;
  };
  while (!(await isDone())) await Bun.sleep(50);
  await end(second, "SIGTERM");
  expect(inDatabase(ZOE)).toBe(false);
  expect(inDatabase(WORD)).toBe(false);

  const restored = await stoa(["restore", backup], { env });
  expect(restored.out).toContain("1 user was erased after the backup was made, and erased again in it.");
  expect(inDatabase("still here")).toBe(true);
  expect(inDatabase(ZOE)).toBe(false);
  expect(inDatabase(WORD)).toBe(false);
  expect(readFileSync(join(dataDir, "erasures.jsonl"), "utf8")).not.toContain(ZOE);
}, 120_000);
