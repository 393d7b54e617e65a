import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { commitOfCheckout, RELEASE } from "../../../src/kernel/version.ts";
import { type Finished, ROOT, type RunningStoa, startStoa } from "../../cli/stoa.ts";
import { buildBinary } from "./binary.ts";

/** A user's directory with configuration files of other programs, and an empty home. */
const work = mkdtempSync(join(tmpdir(), "stoa-compiled-"));
const cwd = join(work, "somewhere");
const home = join(work, "home");
const temporary = join(work, "tmp");
const servers: RunningStoa[] = [];
let binary = "";

beforeAll(async () => {
  binary = await buildBinary();
  mkdirSync(cwd);
  mkdirSync(home);
  mkdirSync(temporary);
  writeFileSync(join(cwd, ".env"), "PORT=99999\nCHAT_MAX_TEXT_LENGTH=5\n");
  writeFileSync(join(cwd, "bunfig.toml"), 'preload = ["./absent.ts"]\n');
}, 120_000);

afterEach(() => {
  for (const { child } of servers.splice(0)) child.kill("SIGKILL");
});
afterAll(() => rmSync(work, { recursive: true, force: true }));

async function run(...args: string[]): Promise<Finished> {
  const child = Bun.spawn([binary, ...args], { cwd, env: { HOME: home }, stdout: "pipe", stderr: "pipe" });
  const [code, out, err] = await Promise.all([
    child.exited,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code, out, err };
}

async function start(...args: string[]): Promise<RunningStoa> {
  const ports = ["--port", "0", "--media-udp-port", "0"];
  const server = await startStoa([binary, ...args, ...ports], { cwd, env: { HOME: home, TMPDIR: temporary } });
  servers.push(server);
  return server;
}

test("[contract 24] the binary prints its version with the commit, without a home or a checkout", async () => {
  const { code, out } = await run("version");
  expect(code).toBe(0);
  // A checkout without Git's files, such as an unpacked archive, has no commit to carry.
  const commit = commitOfCheckout(ROOT) === null ? "" : "\\+[0-9a-f]{7}";
  expect(out).toMatch(new RegExp(`^stoa ${RELEASE.replaceAll(".", "\\.")}${commit} \\(`));
  expect(readdirSync(home)).toEqual([]);
});

test("[11] .env and bunfig.toml of the current directory are ignored", async () => {
  expect(await run("config", "check")).toEqual({ code: 0, out: "The configuration is valid.\n", err: "" });
  const { out } = await run("config", "print", "--json");
  expect(JSON.parse(out)).toMatchObject({ PORT: 7000, CHAT_MAX_TEXT_LENGTH: 4000 });
});

test("[11] wrong usage exits 2", async () => {
  expect((await run("config", "check", "--port", "99999")).code).toBe(2);
  expect((await run("nonesuch")).code).toBe(2);
});

test("[10] serve migrates its database, becomes ready, drains on SIGTERM and restarts on the same data", async () => {
  const { version } = JSON.parse((await run("version", "--json")).out) as { version: string };
  for (let round = 0; round < 2; round++) {
    const { url, child } = await start("serve", "--data-dir", "data");
    expect(await (await fetch(`${url}/healthz`)).json()).toEqual({ status: "ok", version });
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
    expect((await fetch(`${url}/v1/project`)).status).toBe(401);
    child.kill("SIGTERM");
    expect(await child.exited).toBe(0);
  }
  // The database was checkpointed and closed, so the write-ahead log is empty.
  expect(readdirSync(join(cwd, "data")).filter((file) => file.endsWith("-wal"))).toEqual([]);
  expect(readdirSync(home)).toEqual([]);
});

test("[11] dev --json prints a working key", async () => {
  const { out, url } = await start("dev", "--json", "--data-dir", "dev-data");
  const { apiKey } = JSON.parse(out);
  const room = await fetch(`${url}/v1/rooms`, {
    method: "POST",
    headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
    body: JSON.stringify({ name: "hello" }),
  });
  expect(room.status).toBe(201);
});

test("[11] native fan-out works in the binary without a temporary folder", async () => {
  const args = ["serve", "--data-dir", "native-data", "--media-fan-out", "native", "--log-format", "json"];
  const { child } = await start(...args);
  child.kill("SIGTERM");
  const log = await new Response(child.stderr).text();
  expect(await child.exited).toBe(0);
  expect(log).toContain('"fanOut":"native"');
  expect(readdirSync(temporary)).toEqual([]);
});

test("[11] the binary contains the guides as text, pages and data", async () => {
  expect((await run("manual")).out).toContain("rooms ");
  expect((await run("manual", "configuration")).out).toContain("`MEDIA_UDP_PORT`");
  const { url } = await start("dev", "--data-dir", join(work, "guides"));
  for (const path of ["/docs", "/docs/rooms", "/docs/api", "/docs/search.json", "/openapi.json", "/asyncapi.json"]) {
    expect([path, (await fetch(url + path)).status]).toEqual([path, 200]);
  }
});
