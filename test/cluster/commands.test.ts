import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startMember } from "../../src/cluster/member.ts";
import { loadConfig, VARIABLE_NAMES } from "../../src/kernel/config/index.ts";
import { PROGRAM } from "../cli/stoa.ts";
import { type TestPostgres, testPostgres } from "../harness/postgres.ts";
import { testConfig } from "../harness/test-config.ts";
import { blockFor } from "../web/docs/blocks.ts";
import { Group, type GroupMember, readyz, SECRET } from "./group.ts";

const folder = mkdtempSync(join(tmpdir(), "stoa-commands-"));
let postgres: TestPostgres;
let group: Group;
let standby: GroupMember;

beforeAll(async () => {
  postgres = await testPostgres();
  group = new Group(await postgres.database());
  await group.startFirst();
  standby = await group.start("second");
}, 180_000);
afterAll(async () => {
  await group.close();
  await postgres.close();
  rmSync(folder, { recursive: true, force: true });
});

async function stoa(args: string[], env: Record<string, string> = {}) {
  const { PATH = "", HOME = "" } = process.env;
  const child = Bun.spawn([...PROGRAM, ...args], {
    env: { PATH, HOME, LOG_LEVEL: "silent", PORT: "0", MEDIA_UDP_PORT: "0", ...env },
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, error, code] = await Promise.all([textOf(child.stdout), textOf(child.stderr), child.exited]);
  return { out: out.trim(), error: error.trim(), code };
}

const textOf = (stream: ReadableStream<Uint8Array>) => new Response(stream).text();
const shared = () => ({ COMMIT_LOG_URL: group.logUrl ?? "", STOA_SECRET: SECRET });
const authorized = (url: string, key: string) =>
  fetch(`${url}/v1/rooms`, { headers: { authorization: `Bearer ${key}` }, keepalive: false });

test("[contract 20] `stoa cluster --json` names every member with its role, position, lag and version", async () => {
  const leader = await group.leader();
  for (;;) {
    const { out } = await stoa(["cluster", "--json"], shared());
    const { members } = JSON.parse(out) as { members: { url: string; role: string; lag: number; version: string }[] };
    if (members.length < 2 || members.some(({ lag }) => lag > 0)) continue;
    expect(members).toMatchObject([
      { url: leader.url, role: "leader", lag: 0, position: expect.any(Number), version: expect.any(String) },
      { url: standby.url, role: "standby", lag: 0, position: expect.any(Number), version: expect.any(String) },
    ]);
    break;
  }
});

test("[contract 24] a member that has not joined its log yet says that it is starting, and why", async () => {
  const DATA_DIR = join(folder, "starting");
  const COMMIT_LOG_URL = "postgres://nobody@127.0.0.1:1/none";
  const config = { ...testConfig({ DATA_DIR, STOA_SECRET: SECRET }), COMMIT_LOG_URL };
  const member = await startMember(config, { logWrite: () => {} }, () => Promise.reject(new Error("never leads")));
  const { status, reasons } = (await readyz(member.url)) ?? {};
  expect({ status, names: Object.keys(reasons ?? {}) }).toEqual({ status: "unavailable", names: ["starting"] });
  await member.stop("test");
});

test("[contract 20] only the leader is ready; a standby refuses requests so that they are tried again", async () => {
  const leader = await group.leader();
  expect(await readyz(leader.url)).toMatchObject({ status: "ready", role: "leader", lag: 0 });
  const reasons = { standby: `${leader.url} leads` };
  expect(await readyz(standby.url)).toEqual(expect.objectContaining({ status: "standby", role: "standby", reasons }));
  const refused = await authorized(standby.url, group.key);
  expect(refused.status).toBe(503);
  expect(refused.headers.get("retry-after")).toBe("1");
  expect(await refused.json()).toMatchObject({ code: "SVC_STANDBY", legacyCode: "UNAVAILABLE" });
  // Without the secret the data is refused.
  expect((await fetch(`${standby.url}/v1/cluster/snapshot`)).status).toBe(503);
  expect((await fetch(`${(await group.leader()).url}/v1/cluster/snapshot`)).status).toBe(404);
});

test("a command that writes runs on the leader, whichever member gets it", async () => {
  const data = { DATA_DIR: standby.dataDir, ...shared() };
  const { out: key, error } = await stoa(["keys", "create", "--name", "from a standby"], data);
  expect(error).toBe("");
  expect((await authorized((await group.leader()).url, key)).status).toBe(200);
  const wrong = await stoa(["keys", "create", "--project", "nobody's"], data);
  expect(wrong).toMatchObject({ code: 1, error: "stoa: there is no project nobody's. Make it with --create-project." });
  const beside = await stoa(["keys", "create"], { DATA_DIR: standby.dataDir, STOA_SECRET: SECRET });
  expect(beside.code).toBe(2);
  expect(beside.error).toContain("Set COMMIT_LOG_URL");
});

test("any member drains a node of the leader, and is told when the next leader would be drained with it", async () => {
  const data = { DATA_DIR: standby.dataDir, ...shared() };
  const shares = expect.stringContaining("so that the next leader gets no rooms either");
  expect(await stoa(["drain", "local", "--wait"], data)).toEqual({
    code: 0,
    out: "local gets no new rooms.\nlocal has no rooms.",
    error: shares,
  });
  const error = "stoa: there is no media node second. The nodes are: local.";
  expect(await stoa(["drain", "second"], data)).toEqual({ code: 1, out: "", error });
  const undone = { code: 0, out: "local gets new rooms again.", error: "" };
  expect(await stoa(["drain", "local", "--undo"], data)).toEqual(undone);
}, 60_000);

test("[contract 20] invalid settings are refused with the reason", async () => {
  const DATA_DIR = join(folder, "other");
  const without = await stoa(["serve"], { DATA_DIR, COMMIT_LOG_URL: group.logUrl ?? "" });
  expect(without).toMatchObject({ code: 2, error: expect.stringContaining("STOA_SECRET is not") });
  const nowhere = await stoa(["serve"], { DATA_DIR, COMMIT_LOG_URL: "mysql://nowhere/x", STOA_SECRET: SECRET });
  expect(nowhere).toMatchObject({ code: 2, error: expect.stringContaining("postgres://") });
  const another = await stoa(["serve"], { DATA_DIR, ...shared(), STOA_SECRET: `${SECRET} but another` });
  expect(another).toMatchObject({ code: 1, error: expect.stringContaining("another STOA_SECRET") });
  // Data of its own, and a log that has entries.
  expect((await stoa(["migrate"], { DATA_DIR })).code).toBe(0);
  const foreign = await stoa(["serve"], { DATA_DIR, ...shared() });
  expect(foreign).toMatchObject({ code: 1, error: expect.stringContaining("start with an empty --data-dir") });
});

test("[contract 20] without a bucket attachments are refused with the reason", async () => {
  const conversation = { name: "files", members: [{ userId: "ann" }] };
  await group.call("POST", "/v1/chat/conversations", conversation);
  const file = { filename: "a.txt", mimeType: "text/plain", size: 3, uploaderId: "ann" };
  const { status, body } = await group.call("POST", "/v1/chat/conversations/files/attachments", file);
  expect({ status, code: body.code }).toEqual({ status: 503, code: "SVC_STORAGE_UNAVAILABLE" });
  expect(body.message).toContain("STORAGE_S3_BUCKET");
});

test("a server's metrics show its role and position", async () => {
  const leader = await group.leader();
  const figures = async (url: string) => {
    const text = await (await fetch(`${url}/metrics`)).text();
    const value = (name: string) => Number(new RegExp(`^stoa_cluster_${name} (\\d+)$`, "m").exec(text)?.[1]);
    return { leader: value("leader"), position: value("position"), lag: value("lag_records") };
  };
  const head = (await readyz(leader.url))?.position ?? 0;
  expect(head).toBeGreaterThan(0);
  const led = await figures(leader.url);
  expect(led).toMatchObject({ leader: 1, lag: 0 });
  expect(led.position).toBeGreaterThanOrEqual(head);
  let followed = await figures(standby.url);
  while (followed.position < led.position || followed.lag > 0) {
    await Bun.sleep(50);
    followed = await figures(standby.url);
  }
  expect(followed.leader).toBe(0);
});

test("a standby can be backed up while it follows, and the restored data equals the leader's", async () => {
  const made = await group.call("POST", "/v1/chat/conversations", { name: "kept", members: [{ userId: "ann" }] });
  expect(made.status).toBe(201);
  const head = (await readyz((await group.leader()).url))?.position ?? 0;
  while (((await readyz(standby.url))?.position ?? 0) < head) await Bun.sleep(50);
  const file = join(folder, "standby.tar");
  expect(await stoa(["backup", file], { DATA_DIR: standby.dataDir })).toMatchObject({ code: 0 });
  const DATA_DIR = join(folder, "restored");
  expect(await stoa(["restore", file], { DATA_DIR })).toMatchObject({ code: 0 });
  // The member no longer belongs to a log: it is a server of its own, with the same keys and conversations.
  const alone = new Group(null, { STOA_SECRET: SECRET });
  try {
    const { url } = await alone.start("restored", { DATA_DIR });
    const headers = { authorization: `Bearer ${group.key}` };
    const found = await fetch(`${url}/v1/chat/conversations/kept`, { headers, keepalive: false });
    expect(found.status).toBe(200);
  } finally {
    await alone.close();
  }
}, 60_000);

test("the guide's compose file has valid settings that differ where they must", () => {
  type Service = { image: string; environment: Record<string, string>; volumes: string[] };
  const file = Bun.YAML.parse(blockFor("web/docs/standby.md", "compose.yaml"));
  const { services, volumes } = file as { services: Record<string, Service>; volumes: object };
  const servers = Object.entries(services).filter(([, { image }]) => image === "stoa");
  expect(servers.map(([name]) => name)).toEqual(["one", "two"]);
  for (const [name, { environment, volumes: mounted }] of servers) {
    expect(Object.keys(environment).filter((variable) => !VARIABLE_NAMES.includes(variable as never))).toEqual([]);
    const { config } = loadConfig({ env: { ...environment, STOA_SECRET: SECRET } });
    expect(config.CLUSTER_URL).toBe(`http://${name}:${config.PORT}`);
    const log = new URL(config.COMMIT_LOG_URL ?? "");
    expect(services[log.hostname]?.environment).toEqual({
      POSTGRES_USER: log.username,
      POSTGRES_PASSWORD: log.password,
    });
    expect(mounted).toEqual([`${name}:/var/lib/stoa`]);
    expect(Object.keys(volumes)).toContain(name);
  }
});
