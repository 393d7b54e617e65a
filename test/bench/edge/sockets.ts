/** What a WebSocket costs behind the edge: the time of an echo, and the memory of a silent one. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { $ } from "bun";
import { rssMegabytes } from "../harness/processes.ts";
import { median, percentile } from "../harness/report.ts";

const ROUNDS = 7;
const ECHOES = 2_000;
const IDLE = 3_000;
const AT_ONCE = 100;
const WAYS = ["edge", "loopback", "direct", "hop"] as const;

type Bare = { pid: number; edge: number; direct: number; hop: number; stop(): Promise<void> };

async function startBare(hopLibrary: string, ...by: "loopback"[]): Promise<Bare> {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "bare.ts"), hopLibrary, ...by], {
    stdout: "pipe",
    stderr: "inherit",
  });
  const { value } = await child.stdout.getReader().read();
  const stop = async () => {
    child.kill("SIGKILL");
    await child.exited;
  };
  return { pid: child.pid, stop, ...JSON.parse(new TextDecoder().decode(value)) };
}

async function open(port: number): Promise<WebSocket> {
  // Bun takes options where browsers take protocols.
  const socket = new WebSocket(`wss://127.0.0.1:${port}/socket`, { tls: { rejectUnauthorized: false } } as never);
  await new Promise((resolve, reject) => {
    socket.addEventListener("open", resolve);
    socket.addEventListener("error", () => reject(new Error(`no socket at ${port}`)));
  });
  return socket;
}

/** Microseconds of an echo, the median of many one after another. */
async function echoMicros(socket: WebSocket): Promise<number> {
  const times: number[] = [];
  for (let count = 0; count < ECHOES; count++) {
    const startedAt = performance.now();
    await new Promise((resolve) => {
      socket.onmessage = resolve;
      socket.send("x".repeat(64));
    });
    times.push((performance.now() - startedAt) * 1_000);
  }
  return percentile(times, 0.5);
}

type SocketCosts = {
  edgeMicros: number;
  loopbackMicros: number;
  directMicros: number;
  /** From the same server, behind a thread that only passes bytes on: what the machine itself asks for one in between. */
  hopMicros: number;
  /** The additional time that the edge takes in the quietest rounds; on a shared machine other rounds take twice the time. */
  quietestMicros: number;
  idleKilobytes: number;
};

export async function measureSockets(): Promise<SocketCosts> {
  const folder = mkdtempSync(join(tmpdir(), "stoa-bench-hop-"));
  const hopLibrary = join(folder, "hop.so");
  await $`cc -O2 -shared -fPIC -pthread -o ${hopLibrary} ${join(import.meta.dir, "hop.c")}`;
  const [bare, other] = [await startBare(hopLibrary), await startBare(hopLibrary, "loopback")];
  try {
    const ways = {
      edge: await open(bare.edge),
      loopback: await open(other.edge),
      direct: await open(bare.direct),
      hop: await open(bare.hop),
    };
    const times: Record<(typeof WAYS)[number], number[]> = { edge: [], loopback: [], direct: [], hop: [] };
    for (let round = 0; round < ROUNDS; round++) {
      for (const way of WAYS) times[way].push(await echoMicros(ways[way]));
    }
    const before = rssMegabytes(bare.pid);
    const idle: WebSocket[] = [];
    while (idle.length < IDLE)
      idle.push(...(await Promise.all(Array.from({ length: AT_ONCE }, () => open(bare.edge)))));
    // The memory of handshakes is collected once few connections arrive.
    await Bun.sleep(5_000);
    const idleKilobytes = ((rssMegabytes(bare.pid) - before) * 1_024) / IDLE;
    for (const socket of [...idle, ...Object.values(ways)]) socket.close();
    const [edgeMicros, directMicros] = [median(times.edge), median(times.direct)];
    return {
      edgeMicros,
      loopbackMicros: median(times.loopback),
      directMicros,
      hopMicros: median(times.hop),
      quietestMicros: Math.min(...times.edge) - Math.min(...times.direct),
      idleKilobytes,
    };
  } finally {
    await bare.stop();
    await other.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}
