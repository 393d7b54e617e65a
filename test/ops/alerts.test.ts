// needs: prometheus openssl
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { measureCluster } from "../../src/cluster/maintenance.ts";
import { ALERTS, prometheusRules } from "../../src/features/sessions/metrics/alerts.ts";
import { metricsShown } from "../../src/features/sessions/metrics/grafana.ts";
import { openDatabase } from "../../src/kernel/db/open.ts";
import { createMetrics } from "../../src/kernel/metrics.ts";
import { backupName, backupSchedule } from "../../src/ops/backup/schedule.ts";
import { PROGRAM } from "../cli/stoa.ts";
import { testServer } from "../harness/server.ts";

import { IdleClients } from "./idle-clients.ts";
import { mountSmall } from "./machine.ts";
import { prepareData, type Served, served } from "./served.ts";

const work = mkdtempSync(join(tmpdir(), "stoa-alerts-"));
const rules = join(work, "rules.yml");
const disk = join(work, "disk");
const dataDir = join(disk, "data");
const EVALUATED_AT_MINUTES = 90;
let unmount: () => Promise<void>;
let server: Served;

/** One server with a small disk, few descriptors and no way to make a backup. */
beforeAll(async () => {
  writeFileSync(rules, prometheusRules());
  mkdirSync(disk);
  unmount = await mountSmall(disk, "64m");
  await prepareData(dataDir);
  const args = ["--public-ip", "127.0.0.1"];
  server = await served(dataDir, args, ["prlimit", "--nofile=256", ...PROGRAM]);
}, 120_000);

afterAll(async () => {
  await server.stop("SIGKILL");
  await unmount();
  rmSync(work, { recursive: true, force: true });
});

const scrape = async () => (await fetch(`${server.url}/metrics`)).text();

/**
 * Which alerts fire when every scrape of the last two minutes is like this one, and every earlier one like `before`.
 * Prometheus's tests begin at the Unix epoch, so that points in time are moved there.
 */
async function firing(text: string, before = text): Promise<string[]> {
  const now = Date.now() / 1_000;
  const earlier = new Map(before.split("\n").map((line) => [line.slice(0, line.lastIndexOf(" ")), line]));
  const series = text.split("\n").flatMap((line) => {
    const [, name = "", labels = "", value = ""] = /^((?:stoa_|up)\w*)(\{[^}]*\})? (\S+)$/.exec(line) ?? [];
    if (name === "" || name.endsWith("_bucket")) return [];
    const isTime = /_timestamp_seconds$|_expires_seconds$/.test(name);
    const moved = (at: string) => (isTime ? Number(at) - now + EVALUATED_AT_MINUTES * 60 : Number(at));
    const first = earlier.get(`${name}${labels}`)?.split(" ").at(-1) ?? value;
    const values = `${moved(first)}+0x${EVALUATED_AT_MINUTES - 3} ${moved(value)}+0x2`;
    return [{ series: `${name}${labels}`, values }];
  });
  // Expecting none of them makes promtool list those that fire.
  const alert_rule_test = ALERTS.map(({ name }) => ({
    eval_time: `${EVALUATED_AT_MINUTES}m`,
    alertname: name,
    exp_alerts: [],
  }));
  const tests = [{ interval: "1m", input_series: series, alert_rule_test }];
  const file = join(work, "test.yml");
  writeFileSync(file, JSON.stringify({ rule_files: [rules], evaluation_interval: "1m", tests }));
  const { stdout, stderr } = Bun.spawnSync(["promtool", "test", "rules", file]);
  return [...`${stdout}${stderr}`.matchAll(/alertname: (\w+), time/g)].map(([, name = ""]) => name);
}

test("promtool accepts the alerting rules, and the server serves them at /metrics/rules.yml", async () => {
  expect(Bun.spawnSync(["promtool", "check", "rules", rules]).exitCode).toBe(0);
  const response = await fetch(`${server.url}/metrics/rules.yml`);
  expect(await response.text()).toBe(prometheusRules());
  expect(ALERTS.length).toBe(10);
});

test("every figure that a rule asks for is one that the server has, and counters are counters", async () => {
  const text = await scrape();
  const types = new Map([...text.matchAll(/^# TYPE (\S+) (\S+)/gm)].map(([, name = "", type = ""]) => [name, type]));
  // These appear with a schedule, a domain and a commit log.
  const elsewhere = /^stoa_(last_backup|backup|certificate|cluster)_/;
  const asked = ALERTS.flatMap(({ expression }) => expression.match(/\bstoa_\w+/g) ?? []);
  expect([...asked, ...metricsShown()].filter((name) => !types.has(name) && !elsewhere.test(name))).toEqual([]);
  const own = [...types].filter(([name]) => name.startsWith("stoa_"));
  for (const [name, type] of own) expect([name, type === "counter"]).toEqual([name, name.endsWith("_total")]);
});

describe("each alert fires by its cause", () => {
  test("an alert fires when a server is down", async () => {
    const refused = await fetch("http://127.0.0.1:1/metrics").catch(() => null);
    expect(await firing(`up{job="stoa"} ${refused === null ? 0 : 1}`)).toEqual(["StoaDown"]);
    expect(await firing('up{job="stoa"} 1')).toEqual([]);
  });

  test("an alert fires when a disk is nearly full", async () => {
    expect(await firing(await scrape())).toContain("StoaDiskSpaceLow");
  });

  test("an alert fires when a main thread is blocked", async () => {
    await scrape();
    server.child.kill("SIGSTOP");
    await Bun.sleep(1_500);
    server.child.kill("SIGCONT");
    expect(await firing(await scrape())).toContain("StoaEventLoopDelayed");
  });

  test("an alert fires when clients use up the descriptors, in every scrape of the next minutes", async () => {
    const before = await scrape();
    expect(await firing(before)).not.toContain("StoaDescriptorsExhausted");
    // Opened before, because the clients take all that can be accepted.
    const idle = new IdleClients(Number(new URL(server.url).port), 400);
    let text = "";
    while (!/^stoa_connections_refused_total [1-9]/m.test(text)) text = await scrape().catch(() => "");
    await idle.stop();
    while (valueIn(text, "stoa_descriptors_used") > 0.5 * valueIn(text, "stoa_descriptors_allowed"))
      text = await scrape().catch(() => text);
    expect(await firing(text, before)).toContain("StoaDescriptorsExhausted");
  });

  test("an alert fires when a database is damaged", async () => {
    const room = await server.conversation("damaged", "alice");
    const { body } = await server.call("POST", "/v1/chat/tokens", { userId: "alice" });
    await server.stop();
    const path = join(dataDir, "stoa.db");
    const { $client: client } = openDatabase(path, { readonly: true });
    const roots = client
      .query<{ page: number }, []>("SELECT rootpage AS page FROM sqlite_schema WHERE tbl_name = 'conversation_members'")
      .all();
    client.close();
    const whole = readFileSync(path);
    const damaged = Buffer.from(whole);
    for (const { page } of roots) damaged.fill(0xff, (page - 1) * 4_096, page * 4_096);
    writeFileSync(path, damaged);
    server = await served(dataDir, ["--public-ip", "127.0.0.1"]);
    await server.call("GET", `/v1/chat/conversations/${room}/messages`, undefined, body.token);
    const text = await scrape();
    await server.stop("SIGKILL");
    writeFileSync(path, whole);
    server = await served(dataDir, ["--public-ip", "127.0.0.1"]);
    expect(await firing(text)).toContain("StoaDatabaseDamaged");
  });

  test("an alert fires when backups fail, and are therefore too old", async () => {
    const backups = join(work, "backups");
    mkdirSync(backups);
    const own = testServer({ BACKUP_DIR: backups, BACKUP_EVERY_HOURS: 6 });
    writeFileSync(join(backups, backupName(Date.now() - 9 * 3_600_000)), "an older one");
    const schedule = backupSchedule(own.runtime, { make: async () => Promise.reject(new Error("no space left")) });
    await expect(schedule.runDue(Date.now())).rejects.toThrow("no space left");
    expect(await firing(await own.runtime.metrics.registry.metrics())).toEqual(["StoaBackupFailed", "StoaBackupOld"]);
    own.close();
  });

  test("an alert fires when a standby does not keep up", async () => {
    const metrics = createMetrics();
    const state = () => ({ role: "standby" as const, leader: "http://one", position: 10, lag: 5_000 });
    measureCluster(metrics, { state, refused: { leader: 0, member: 0, record: 0 } });
    expect(await firing(await metrics.registry.metrics())).toEqual(["StoaReplicationLag"]);
  });

  test("an alert fires when a media node no longer reports", async () => {
    const own = testServer();
    const { fleet } = own.services;
    const fields = { region: "local", publicHost: "127.0.0.1", internalUrl: "http://127.0.0.1" };
    await own.runtime.write((unit) => fleet.register(unit, { name: "n1", ...fields }));
    own.clock.advance(3_600_000);
    expect(await firing(await own.runtime.metrics.registry.metrics())).toEqual(["StoaMediaNodeLost"]);
    own.close();
  });

  test("an alert fires when a certificate was not renewed", async () => {
    const [cert, key] = [join(work, "cert.pem"), join(work, "key.pem")];
    const made = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "5"];
    const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert];
    expect(Bun.spawnSync(["openssl", ...made, ...subject]).exitCode).toBe(0);
    const tls = ["--tls-cert", cert, "--tls-key", key, "--metrics-token", "a-metrics-token-of-32-characters"];
    await server.stop();
    const secure = await served(dataDir, ["--public-ip", "127.0.0.1", ...tls]);
    const headers = { authorization: "Bearer a-metrics-token-of-32-characters" };
    const response = await fetch(`${secure.url}/metrics`, { headers, tls: { rejectUnauthorized: false } });
    const text = await response.text();
    await secure.stop("SIGKILL");
    expect(await firing(text)).toContain("StoaCertificateExpires");
  });
});

function valueIn(text: string, name: string): number {
  return Number(new RegExp(`^${name} (\\S+)$`, "m").exec(text)?.[1]);
}
