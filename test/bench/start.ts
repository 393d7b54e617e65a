/** start: the compiled binary to /readyz on an existing database, and its memory when idle */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildBinary } from "../e2e/binary/binary.ts";
import { cpuMicros, ownMegabytes, rssMegabytes, untilIdle } from "./harness/processes.ts";
import { median, report } from "./harness/report.ts";

const RUNS = 10;

const binary = await buildBinary();
const dataDir = mkdtempSync(join(tmpdir(), "stoa-bench-start-"));
await startToReady(); // makes the database, and warms the page cache

const startMs: number[] = [];
const cpuMs: number[] = [];
const idleMb: number[] = [];
const ownMb: number[] = [];
for (let run = 0; run < RUNS; run++) {
  const { elapsedMs, usedMs, memory } = await startToReady(run < 3);
  startMs.push(elapsedMs);
  cpuMs.push(usedMs);
  if (!memory) continue;
  idleMb.push(memory.rssMb);
  ownMb.push(memory.ownMb);
}
rmSync(dataDir, { recursive: true, force: true });

report(
  "start",
  [
    { what: `binary to /readyz, median of ${RUNS}`, value: median(startMs), unit: "ms", goal: { atMost: 200 } },
    { what: "processor time of that (all threads)", value: median(cpuMs), unit: "ms" },
    { what: "memory at rest (RSS), median of 3", value: median(idleMb), unit: "MB", goal: { atMost: 100 } },
    { what: "of it its own, the rest are pages of the file", value: median(ownMb), unit: "MB" },
  ],
  { startMs: startMs.map(Math.round), idleMb: idleMb.map(Math.round) },
);

type Started = { elapsedMs: number; usedMs: number; memory: { rssMb: number; ownMb: number } | null };

async function startToReady(atRest = false): Promise<Started> {
  const port = await freePort();
  const startedAt = performance.now();
  const child = Bun.spawn(
    [binary, "serve", "--port", String(port), "--media-udp-port", "0", "--data-dir", dataDir, "--log-level", "error"],
    { stdout: "ignore", stderr: "inherit" },
  );
  for (;;) {
    const answer = await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => undefined);
    if (answer?.status === 200) break;
    if (child.exitCode !== null) throw new Error(`the server ended with ${child.exitCode}`);
    await Bun.sleep(1);
  }
  const elapsedMs = performance.now() - startedAt;
  const usedMs = cpuMicros(child.pid) / 1000;
  if (atRest) await untilIdle(child.pid);
  const memory = atRest ? { rssMb: rssMegabytes(child.pid), ownMb: ownMegabytes(child.pid) } : null;
  child.kill("SIGTERM");
  await child.exited;
  return { elapsedMs, usedMs, memory };
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0));
    });
  });
}
