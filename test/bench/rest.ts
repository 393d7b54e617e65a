/** rest: GET /v1/project with an API key against a bare Elysia route with the same answer, in the same run */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FROM_SOURCE, type RunningStoa, startStoa } from "../cli/stoa.ts";
import { requestsPerSecond } from "./harness/http-load.ts";
import { cpuMicros } from "./harness/processes.ts";
import { median, report } from "./harness/report.ts";

const ROUNDS = Number(process.argv[2] ?? 5);
const LOAD = { connections: 64, pipelined: 1, durationMs: 2000 };

const dataDir = mkdtempSync(join(tmpdir(), "stoa-bench-rest-"));
const stoa = await startStoa([
  ...FROM_SOURCE,
  "dev",
  "--json",
  "--port",
  "0",
  "--media-udp-port",
  "0",
  "--data-dir",
  dataDir,
  "--log-level",
  "warn",
]);
const { apiKey } = JSON.parse(stoa.out);
const headers = { authorization: `Bearer ${apiKey}` };
const body = await (await fetch(`${stoa.url}/v1/project`, { headers })).text();
const bare = await startStoa([process.execPath, join(import.meta.dir, "harness/bare-elysia.ts"), body]);

type Round = { perSecond: number; cpuMicrosPerRequest: number };
const rounds: { stoa: Round[]; bare: Round[] } = { stoa: [], bare: [] };
await measure(bare); // warms both up
await measure(stoa);
for (let round = 0; round < ROUNDS; round++) {
  rounds.bare.push(await measure(bare));
  rounds.stoa.push(await measure(stoa));
}
for (const { child } of [stoa, bare]) {
  child.kill("SIGTERM");
  await child.exited;
}
rmSync(dataDir, { recursive: true, force: true });

const of = (name: keyof typeof rounds, figure: keyof Round) => median(rounds[name].map((round) => round[figure]));
report(
  "rest",
  [
    { what: "GET /v1/project", value: of("stoa", "perSecond"), unit: "requests/s" },
    { what: "bare Elysia route", value: of("bare", "perSecond"), unit: "requests/s" },
    {
      what: "requests a second against a bare route",
      value: of("stoa", "perSecond") / of("bare", "perSecond"),
      unit: "",
      goal: { atLeast: 0.6 },
    },
    { what: "GET /v1/project", value: of("stoa", "cpuMicrosPerRequest"), unit: "µs of CPU" },
    { what: "bare Elysia route", value: of("bare", "cpuMicrosPerRequest"), unit: "µs of CPU" },
  ],
  { rounds },
);

async function measure({ url, child }: RunningStoa): Promise<Round> {
  const before = cpuMicros(child.pid);
  const { requests, perSecond } = await requestsPerSecond({ ...LOAD, url: `${url}/v1/project`, headers });
  return { perSecond, cpuMicrosPerRequest: (cpuMicros(child.pid) - before) / requests };
}
