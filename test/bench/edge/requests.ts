/** What a request costs the main thread: behind the edge, directly without TLS, and with a server that terminates TLS itself. */
import { giveMainThreadsACore } from "../harness/cores.ts";
import { type Load, requestsPerSecond } from "../harness/http-load.ts";
import { mainThreadNanos } from "../harness/processes.ts";
import { type Measured, median } from "../harness/report.ts";
import { startEdgeServer } from "./server.ts";

const ROUNDS = 5;
const CONNECTIONS = 32;

type Pace = Pick<Load, "durationMs" | "pauseMs"> & { ownCore?: boolean };

/**
 * Kept full, the main thread is never without work past the edge, but waits for a core behind it; at a rate that all of
 * them reach, it has as much to do each way. On two cores the load, the edge and it are still one more than there is room
 * for: with a core of its own it is measured as on a larger machine.
 */
const PACES: Record<string, Pace> = {
  "connections kept full": { durationMs: 1_500 },
  "about 3,000 requests/s": { durationMs: 2_500, pauseMs: 10 },
  "about 3,000 requests/s, a core of its own": { durationMs: 2_500, pauseMs: 10, ownCore: true },
};

type Way = { name: string; url: string; pid: number };

export async function measureRequests(): Promise<Measured[]> {
  const [server, own] = [await startEdgeServer(), await startEdgeServer({ endsTls: true })];
  const keys = new Map([server, own].map(({ pid, apiKey }) => [pid, apiKey]));
  const edge: Way = { name: "through the edge", url: `https://127.0.0.1:${server.edgePort}`, pid: server.pid };
  const plain: Way = { name: "past it, without TLS", url: server.url, pid: server.pid };
  const secure: Way = { name: "of a server that ends TLS itself", url: own.url, pid: own.pid };
  const ways = [edge, plain, secure];
  const figures: Measured[] = [];
  const measure = async ({ url, pid }: Way, pace: Pace) => {
    const headers = { authorization: `Bearer ${keys.get(pid)}` };
    const before = mainThreadNanos(pid);
    const full = { ...pace, headers, connections: CONNECTIONS, pipelined: 1 };
    const { requests } = await requestsPerSecond({ ...full, url: `${url}/v1/project` });
    return (mainThreadNanos(pid) - before) / 1_000 / requests;
  };
  try {
    for (const way of [...ways, ...ways]) await measure(way, { durationMs: 1_500 });
    for (const [name, pace] of Object.entries(PACES)) {
      const release = pace.ownCore ? giveMainThreadsACore([server.pid, own.pid]) : null;
      const times = new Map<Way, number[]>(ways.map((way) => [way, []]));
      for (let round = 0; round < ROUNDS; round++)
        for (const way of ways) times.get(way)?.push(await measure(way, pace));
      release?.();
      const cost = (way: Way) => median(times.get(way) ?? []);
      for (const way of ways)
        figures.push({ what: `main thread, a request ${way.name}, ${name}`, value: cost(way), unit: "µs of CPU" });
      for (const way of [plain, secure])
        figures.push({
          what: `through the edge against ${way.name}, ${name}`,
          value: cost(edge) / cost(way),
          unit: "",
          goal: { atMost: 1.1 },
        });
    }
  } finally {
    await server.stop();
    await own.stop();
  }
  return figures;
}
