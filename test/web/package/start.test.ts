import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startStoa } from "../../../src/cli/start/start-stoa.ts";
import { Stoa } from "../../../web/sdk/server.ts";

const ROOT = join(import.meta.dir, "../../..");
const PROGRAM = process.env.BUILT_STOA ?? join(ROOT, "bin/stoa");
/** The tests' own temporary folder, to check that nothing is left behind. */
const temporary = mkdtempSync(join(tmpdir(), "stoa-start-"));
const before = process.env.TMPDIR;
beforeAll(() => {
  process.env.TMPDIR = temporary;
});
afterAll(() => {
  if (before === undefined) delete process.env.TMPDIR;
  else process.env.TMPDIR = before;
  rmSync(temporary, { recursive: true, force: true });
});

const remainingFolders = () => readdirSync(temporary).filter((name) => name.startsWith("stoa-throw-away-"));
const environment = () => ({ ...process.env, TMPDIR: temporary });

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await Bun.sleep(20);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

test("[21] ten servers run side by side with different keys and leave nothing behind", async () => {
  const servers = await Promise.all(Array.from({ length: 10 }, () => startStoa({ binary: PROGRAM })));
  expect(new Set(servers.map(({ url }) => url)).size).toBe(10);
  await Promise.all(
    servers.map(async ({ url, apiKey, projectId }) => {
      const stoa = new Stoa({ url, apiKey });
      expect((await stoa.project()).id).toBe(projectId);
      await stoa.rooms.create({ name: "same" });
    }),
  );
  expect(remainingFolders()).toHaveLength(10);
  await Promise.all(servers.map((server) => server.stop()));
  expect(remainingFolders()).toEqual([]);
  await expect(fetch(`${servers[0]?.url}/healthz`)).rejects.toThrow();
}, 120_000);

test("[21] in a checkout the server runs in the same process under Bun", async () => {
  const server = await startStoa({ env: { CHAT_SEND_RATE_LIMIT: "7" } });
  expect(remainingFolders()[0]).toStartWith(`stoa-throw-away-${process.pid}-`);
  expect((await fetch(`${server.url}/readyz`)).status).toBe(200);
  await server.stop();
  expect(remainingFolders()).toEqual([]);
}, 60_000);

test("[21] data in the caller's folder outlives the server", async () => {
  const dataDir = join(temporary, "kept");
  const first = await startStoa({ binary: PROGRAM, dataDir });
  await new Stoa(first).rooms.create({ name: "kept" });
  await first.stop();
  const second = await startStoa({ binary: PROGRAM, dataDir });
  expect(second.apiKey).toBe(first.apiKey);
  expect((await new Stoa(second).rooms.list()).map(({ name }) => name)).toEqual(["kept"]);
  await second.stop();
}, 60_000);

test("[21] the error names a missing binary or an invalid setting", async () => {
  await expect(startStoa({ binary: join(temporary, "nothing") })).rejects.toThrow(/STOA_BINARY/);
  await expect(startStoa({ binary: PROGRAM, env: { PORT: "hello" } })).rejects.toThrow(/PORT/);
  expect(remainingFolders()).toEqual([]);
}, 60_000);

test("[21] killing the parent process ends the server and removes its data", async () => {
  const script = `
    const { startStoa } = await import(${JSON.stringify(join(ROOT, "src/cli/start/start-stoa.ts"))});
    const server = await startStoa({ binary: ${JSON.stringify(PROGRAM)} });
    console.log(server.url);
    setInterval(() => {}, 1000);`;
  const parent = Bun.spawn([process.execPath, "-e", script], { env: environment(), stdout: "pipe", stderr: "ignore" });
  const { value } = await parent.stdout.getReader().read();
  const url = new TextDecoder().decode(value).trim();
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
  expect(remainingFolders()).toHaveLength(1);
  parent.kill("SIGKILL");
  await until(() => remainingFolders().length === 0);
  await expect(fetch(`${url}/healthz`)).rejects.toThrow();
}, 60_000);

test("[11] stoa test passes the server to the command, returns its exit code, and ends all processes when killed", async () => {
  const passed = Bun.spawn(
    [PROGRAM, "test", "--", "sh", "-c", 'curl -sf "$STOA_URL/readyz" && echo "$STOA_WS" && exit 7'],
    {
      env: { ...environment(), STOA_URL: "http://elsewhere.example", STOA_BINARY: "/nowhere" },
      stdout: "pipe",
    },
  );
  const output = await new Response(passed.stdout).text();
  expect(output).toContain('"status":"ready"');
  expect(output).toMatch(/ws:\/\/127\.0\.0\.1:\d+\/v1\/rtc/);
  expect(await passed.exited).toBe(7);
  expect(remainingFolders()).toEqual([]);

  const pids = join(temporary, "pids");
  const killed = Bun.spawn([PROGRAM, "test", "--", "sh", "-c", `sleep 600 & echo $$ $! > ${pids}; wait`], {
    env: environment(),
  });
  await until(() => existsSync(pids) && /\d+ \d+\n/.test(readFileSync(pids, "utf8")));
  const [shell = 0, sleep = 0] = (await Bun.file(pids).text()).trim().split(" ").map(Number);
  killed.kill("SIGKILL");
  await until(() => remainingFolders().length === 0 && !isAlive(shell) && !isAlive(sleep));

  const missing = Bun.spawn([PROGRAM, "test", "--", "no-such-program"], { env: environment(), stderr: "pipe" });
  expect(await new Response(missing.stderr).text()).toContain("no-such-program");
  expect(await missing.exited).toBe(127);
}, 120_000);

test("[11] stoa join publishes test media in a room and sends a chat message", async () => {
  const server = await startStoa();
  const stoa = new Stoa(server);
  const env = { ...environment(), STOA_URL: server.url, STOA_API_KEY: server.apiKey };
  const join = (...args: string[]) => Bun.spawn([PROGRAM, "join", ...args], { env, stdout: "pipe", stderr: "pipe" });
  // The error is detected before joining.
  const mistaken = join("standup", "--publish", "tone,video");
  expect(await new Response(mistaken.stderr).text()).toContain("nothing to publish called video: tone, tone:HZ, bars");
  expect([await mistaken.exited, (await stoa.rooms.list()).length]).toEqual([2, 0]);
  const guest = join(
    "standup",
    "--identity",
    "guest",
    "--publish",
    "tone,bars",
    "--say",
    "hello",
    "--json",
    "--network",
    "loss=5%,seed=7",
  );
  const roomId = async () => (await stoa.rooms.list()).find(({ name }) => name === "standup")?.id ?? "";
  const sources = async () => {
    const people = await stoa.rooms
      .participants(await roomId())
      .toArray()
      .catch(() => []);
    return people.flatMap(({ identity, tracks }) => tracks.map(({ source }) => `${identity} ${source}`)).sort();
  };
  while ((await sources()).length < 2) await Bun.sleep(50);
  expect(await sources()).toEqual(["guest camera", "guest microphone"]);
  const said = async () =>
    (
      await stoa.messages.history(await roomId()).then(
        ({ data }) => data,
        () => [],
      )
    )[0];
  while (!(await said())) await Bun.sleep(50);
  expect(await said()).toMatchObject({ text: "hello", senderId: "guest" });
  guest.kill("SIGTERM");
  expect(await guest.exited).toBe(0);
  const events = (await new Response(guest.stdout).text())
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line).event);
  expect(events.slice(0, 3)).toEqual(["joined", "published", "published"]);
  const everybodyLeft = async () => (await stoa.rooms.participants(await roomId())).length === 0;
  while (!(await everybodyLeft())) await Bun.sleep(50);

  // An id is not taken for the name of another room.
  const stopped = join(await roomId(), "--publish", "tone,bars", "--say", "never mind", "--json");
  const { value } = await stopped.stdout.getReader().read();
  expect(new TextDecoder().decode(value)).toContain('"joined"');
  expect((await stoa.rooms.list()).map(({ name }) => name)).toEqual(["standup"]);
  stopped.kill("SIGTERM");
  expect(await stopped.exited).toBe(0);
  while (!(await everybodyLeft())) await Bun.sleep(50);

  const again = join("standup", "--seconds", "1");
  expect(await again.exited).toBe(0);
  const wrong = join("standup", "--network", "los=5%");
  expect(await new Response(wrong.stderr).text()).toContain("none of loss, delay, seed");
  expect(await wrong.exited).toBe(2);
  await server.stop();
}, 120_000);
