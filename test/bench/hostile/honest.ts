/** The honest of the hostile benches: each in a process of its own, which shares its network with this one. */
import { percentile } from "../harness/report.ts";
import { here } from "./field.ts";
import { ASKER, HONEST } from "./machine.ts";
import { type Counted, percentileOf } from "./stalls.ts";

/** With fewer answers, a 99th percentile would depend on one of them. */
export const ENOUGH_ANSWERS = 1_000;
/** How long it takes to get them at this client's rate, with a margin. */
export const ENOUGH_SECONDS = 11;

type Asked = { times: number[]; failed: number; late: Counted[] };

export const honestly = (file: string, ...args: unknown[]) => run(HONEST, file, args);

const run = (before: string[], file: string, args: unknown[]) =>
  Bun.spawn([...before, process.execPath, here(file), ...args.map(String)], {
    stdin: "pipe",
    stdout: "pipe",
    stderr: "inherit",
  });

/** Asks for `/healthz` from now until the result is called. */
export function watchHealth(url: string) {
  const watcher = run(ASKER, "health.ts", [url]);
  return async () => {
    watcher.stdin.end();
    const { times, failed, late } = (await new Response(watcher.stdout).json()) as Asked;
    const [p50, p99] = [percentile(times, 0.5), percentile(times, 0.99)];
    // The part of the time that is not the server's fault.
    const ownLateness = { p50: percentileOf(late, 0.5), p99: percentileOf(late, 0.99) };
    return { p50, p99, asked: times.length, failed, ownLateness };
  };
}
