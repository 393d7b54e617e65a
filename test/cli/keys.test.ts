import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
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

test("[11] keys create needs an account and a project, and says so", async () => {
  expect((await keys("create")).err).toContain("there is no project yet");
  const orphan = await keys("create", "--project", "shop", "--create-project");
  expect([orphan.code, orphan.err]).toEqual([1, "stoa: there is no account yet. Make one with `stoa admin create`.\n"]);
});

test("[11] keys create prints a key that the running server takes, of the environment asked for", async () => {
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

test("[11] a key revoked on the command line stops working on the running server, which had it in memory", async () => {
  const { key, publicId } = JSON.parse((await keys("create", "--json")).out);
  expect((await project(key)).status).toBe(200);
  expect((await keys("revoke", publicId)).out).toBe(`Revoked ${publicId}.\n`);
  while ((await project(key)).status === 200) await Bun.sleep(20);
  expect((await project(key)).status).toBe(401);
  expect((await keys("revoke", publicId)).out).toBe(`${publicId} was revoked already.\n`);
  expect((await keys("revoke", "nonesuch")).code).toBe(1);
});

test("[11] with two projects the one that is meant must be named", async () => {
  await keys("create", "--project", "blog", "--create-project");
  const { code, err } = await keys("create");
  expect(code).toBe(2);
  expect(err).toContain("say which project by --project: blog (");
  expect((await keys("create", "--project", "blog")).code).toBe(0);
});
