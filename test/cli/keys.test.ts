import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PROGRAM, type RunningStoa, startStoa, stoa } from "./stoa.ts";

const dataDir = mkdtempSync(join(tmpdir(), "stoa-keys-"));
let server: RunningStoa;

beforeAll(async () => {
  server = await startStoa([...PROGRAM, "serve", "--port", "0", "--media-udp-port", "0", "--data-dir", dataDir]);
});
afterAll(() => {
  server.child.kill("SIGKILL");
  rmSync(dataDir, { recursive: true, force: true });
});

const keys = (...args: string[]) => stoa(["keys", ...args, "--data-dir", dataDir]);
const project = (key: string) => fetch(`${server.url}/v1/project`, { headers: { authorization: `Bearer ${key}` } });

test("[11] keys create needs an account and a project, and reports which is missing", async () => {
  expect((await keys("create")).err).toContain("there is no project yet");
  const orphan = await keys("create", "--project", "shop", "--create-project");
  expect([orphan.code, orphan.err]).toEqual([1, "stoa: there is no account yet. Make one with `stoa admin create`.\n"]);
});

test("[11] keys create prints a key of the requested environment, which the running server accepts", async () => {
  await stoa(["admin", "create", "op@example.com", "--data-dir", dataDir], { stdin: "a long password\n" });
  expect((await keys("create", "--project", "shop")).err).toContain("Make it with --create-project.");
  const { code, out } = await keys("create", "--project", "shop", "--create-project", "--environment", "production");
  expect(code).toBe(0);
  expect(out).toMatch(/^svk_prod_[A-Za-z0-9]{16}\.[A-Za-z0-9_-]{43}\n$/);
  const answer = await project(out.trim());
  expect(answer.status).toBe(200);
  expect(await answer.json()).toMatchObject({ name: "shop", environment: "PRODUCTION" });
});

test("[11] keys list shows records and no secret", async () => {
  const made = JSON.parse((await keys("create", "--name", "second", "--json")).out);
  const { out } = await keys("list", "--json");
  const [newest, oldest] = JSON.parse(out);
  expect(newest).toMatchObject({
    publicId: made.publicId,
    name: "second",
    environment: "DEVELOPMENT",
    projectName: "shop",
  });
  expect(oldest).toMatchObject({ environment: "PRODUCTION", status: "ACTIVE" });
  expect(out).not.toContain(made.key.split(".")[1]);
  expect((await keys("list")).out).toContain(made.publicId);
  expect((await keys("list", "--project", "nonesuch")).code).toBe(1);
});

test("[11] a key revoked on the command line stops working on the running server, which had cached it", async () => {
  const { key, publicId } = JSON.parse((await keys("create", "--json")).out);
  expect((await project(key)).status).toBe(200);
  expect((await keys("revoke", publicId)).out).toBe(`Revoked ${publicId}.\n`);
  while ((await project(key)).status === 200) await Bun.sleep(20);
  expect((await project(key)).status).toBe(401);
  expect((await keys("revoke", publicId)).out).toBe(`${publicId} was revoked already.\n`);
  expect((await keys("revoke", "nonesuch")).code).toBe(1);
});

test("[11] with two projects, the project must be named", async () => {
  await keys("create", "--project", "blog", "--create-project");
  const { code, err } = await keys("create");
  expect(code).toBe(2);
  expect(err).toContain("say which project by --project: blog (");
  expect((await keys("create", "--project", "blog")).code).toBe(0);
});

test("commands that need data refuse a folder without any, and create nothing there", async () => {
  const empty = mkdtempSync(join(tmpdir(), "stoa-empty-"));
  const commands = [
    ["keys", "list"],
    ["keys", "create"],
    ["keys", "revoke", "svk_dev_x"],
    ["keys", "secret", "svk_dev_x"],
    ["node-keys", "list"],
    ["backup", join(empty, "backup.tar")],
  ];
  for (const command of commands) {
    const { code, out, err } = await stoa([...command, "--data-dir", join(empty, "data")]);
    expect([command, code, out]).toEqual([command, 1, ""]);
    expect(err).toStartWith(`stoa: no data in ${join(empty, "data")}.`);
  }
  expect(readdirSync(empty)).toEqual([]);
  rmSync(empty, { recursive: true });
});

test("join and load-test say which server refused the key, and which does not answer", async () => {
  for (const command of [
    ["join", "lobby"],
    ["load-test", "--duration", "1"],
  ]) {
    const refused = await stoa([...command, "--url", server.url, "--api-key", "svk_dev_wrong"]);
    expect([command, refused.code]).toEqual([command, 1]);
    expect(refused.err).toContain(`${server.url} answered SVC_AUTH_ERROR: `);
    expect(refused.err).toContain("Check the API key");
    const silent = await stoa([...command, "--url", "http://127.0.0.1:1", "--api-key", "svk_dev_wrong"]);
    expect([command, silent.code]).toEqual([command, 1]);
    expect(silent.err).toContain("http://127.0.0.1:1 does not answer: ");
  }
});
