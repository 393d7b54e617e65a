import { afterAll, beforeAll, expect, test } from "bun:test";
import { SQL } from "bun";
import type { Config } from "../../src/kernel/config/index.ts";
import { createKeyring } from "../../src/kernel/crypto/secrets.ts";
import { postgresLog } from "../../src/kernel/db/postgres-log.ts";
import { createLog } from "../../src/kernel/log.ts";
import { systemTimers } from "../../src/kernel/time/timers.ts";
import { VERSION } from "../../src/kernel/version.ts";
import type { Check } from "../../src/ops/doctor/check.ts";
import { checkCommitLog } from "../../src/ops/doctor/commit-log.ts";
import { stoa } from "../cli/stoa.ts";
import { freePort, type TestPostgres, testPostgres } from "../harness/postgres.ts";
import { testConfig } from "../harness/test-config.ts";
import { Group, SECRET } from "./group.ts";

let postgres: TestPostgres;
let url: string;
beforeAll(async () => {
  postgres = await testPostgres();
  url = await postgres.database();
}, 180_000);
afterAll(() => postgres.close());

async function said(overrides: Partial<Config> = {}): Promise<string[]> {
  const settings = { COMMIT_LOG_URL: url, STOA_SECRET: SECRET, STORAGE_S3_BUCKET: "files" };
  const config: Config = { ...testConfig(), ...settings, ...overrides };
  const checks = await checkCommitLog({ config, running: null, now: Date.now() });
  return checks.map(({ status, detail }) => `${status}: ${detail}`);
}

test("the doctor reports an unreachable, lossy or foreign log, and an unreachable leader", async () => {
  expect(await said()).toEqual(["pass: it answers, and the servers fit together"]);
  expect(await said({ COMMIT_LOG_URL: undefined })).toEqual(["pass: none: this server stands alone"]);
  expect(await said({ COMMIT_LOG_URL: "postgres://nobody@127.0.0.1:1/none" })).toEqual([
    expect.stringMatching(/^fail: /),
  ]);
  expect(await said({ STORAGE_S3_BUCKET: undefined })).toEqual([expect.stringMatching(/^warn: no bucket/)]);

  const log = postgresLog(url, { log: createLog({ level: "silent", format: "json" }), timers: systemTimers });
  await log.info(createKeyring(SECRET).fingerprint);
  expect(await said({ ROLE: "edge", STORAGE_S3_BUCKET: undefined })).toEqual(["fail: no server leads"]);
  expect(await said()).toEqual(["warn: no server leads"]);

  const leader = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => Response.json({ status: "ok" }) });
  const leaderUrl = `http://127.0.0.1:${leader.port}`;
  const leadership = await log.lead(leaderUrl);
  await log.report({ url: leaderUrl, role: "leader", position: 0, version: VERSION });
  expect(await said({ ROLE: "edge" })).toEqual(["pass: it answers, and the servers fit together"]);
  expect(await said({ STOA_SECRET: `${SECRET} but another` })).toEqual(["fail: it was made with another STOA_SECRET"]);
  await log.report({ url: "http://old", role: "standby", position: 0, version: "0.0.1" });
  await leader.stop(true);
  expect(await said({ ROLE: "edge" })).toEqual([
    `warn: http://old has 0.0.1, and this is ${VERSION}`,
    expect.stringContaining(`fail: ${leaderUrl} leads, but cannot be reached from here`),
  ]);
  await leadership?.resign();
  await log.close();

  const sql = new SQL(url, { max: 1 });
  await sql.unsafe(`ALTER DATABASE ${new URL(url).pathname.slice(1)} SET synchronous_commit = off`);
  await sql.close({ timeout: 0 });
  expect(await said()).toContain("fail: it can lose acknowledged commits in a crash");
}, 120_000);

test("a healthy standby passes: its own port is not taken for another program's", async () => {
  const group = new Group(await postgres.database());
  try {
    const leader = await group.startFirst();
    await group.leader();
    const port = String(await freePort());
    const standby = await group.start("second", { PORT: port });
    const env = {
      DATA_DIR: standby.dataDir,
      HOST: "127.0.0.1",
      PORT: port,
      STOA_SECRET: SECRET,
      MEDIA_WORKERS: "1",
      MEDIA_UDP_PORT: String(await freePort()),
      PUBLIC_IP: "127.0.0.1",
      COMMIT_LOG_URL: group.logUrl ?? "",
    };
    const examine = async () => {
      const { out } = await stoa(["doctor", "--json"], { env });
      return JSON.parse(out) as Check[];
    };
    const checks = await examine();
    expect(checks.filter(({ status }) => status === "fail")).toEqual([]);
    const of = (name: string) => checks.find((check) => check.name === name);
    expect(of("http-port")).toMatchObject({
      status: "pass",
      detail: `the running standby answers at http://127.0.0.1:${port}, and ${leader.url} leads`,
    });
    for (const name of ["media-probe", "websocket", "livekit-clients"]) {
      expect(of(name)).toMatchObject({ status: "pass", detail: "not checked: this server is a standby" });
    }

    // Once it leads it is examined as a server, and a leader that stepped down as a standby again.
    await group.kill(leader);
    await group.leader();
    const leading = await examine();
    expect(leading.find(({ name }) => name === "http-port")?.detail).toStartWith("the running server answers");
  } finally {
    await group.close();
  }
}, 180_000);
