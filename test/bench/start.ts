/** start: the compiled binary to /readyz on an existing database, and its memory when idle */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildBinary } from "../compiled/binary.ts";
import { cpuMicros, rssMegabytes } from "./harness/processes.ts";
import { median, report } from "./harness/report.ts";

const RUNS = 10;
const IDLE_MS = 3000;

const binary = await buildBinary();
const dataDir = mkdtempSync(join(tmpdir(), "stoa-bench-start-"));
await startToReady(); // makes the database, and warms the page cache

const startMs: number[] = [];
const cpuMs: number[] = [];
const idleMb: number[] = [];
for (let run = 0; run < RUNS; run++) {
  const { elapsedMs, usedMs, rssMb } = await startToReady(run < 3 ? IDLE_MS : 0);
  startMs.push(elapsedMs);
  cpuMs.push(usedMs);
  if (run < 3) idleMb.push(rssMb);
}
rmSync(dataDir, { recursive: true, force: true });

report(
  "start",
  [
    { what: `binary to /readyz, median of ${RUNS}`, value: median(startMs), unit: "ms", goal: { atMost: 250 } },
    { what: "processor time of that (all threads)", value: median(cpuMs), unit: "ms" },
    { what: "idle memory (RSS), median of 3", value: median(idleMb), unit: "MB", goal: { atMost: 120 } },
  ],
  { startMs: startMs.map(Math.round), idleMb: idleMb.map(Math.round) },
);

async function startToReady(idleMs = 0): Promise<{ elapsedMs: number; usedMs: number; rssMb: number }> {
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
  await Bun.sleep(idleMs);
  const rssMb = rssMegabytes(child.pid);
  child.kill("SIGTERM");
  await child.exited;
  return { elapsedMs, usedMs, rssMb };
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0));
    });
  });
}
