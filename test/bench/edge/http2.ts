/** Whether HTTP/2 is worthwhile behind the edge, which only forwards bytes: the server's cost of a request, and WebSockets. */
import { type ClientHttp2Session, connect } from "node:http2";
import { join } from "node:path";
import { requestsPerSecond } from "../harness/http-load.ts";
import { mainThreadNanos } from "../harness/processes.ts";
import { type Measured, median } from "../harness/report.ts";

const ROUNDS = 5;
const DURATION_MS = 1_500;
const SESSIONS = 4;
const STREAMS = 8;
const ANSWER_WITHIN_MS = 5_000;

function session(port: number): Promise<ClientHttp2Session> {
  return new Promise((resolve, reject) => {
    const opened = connect(`http://127.0.0.1:${port}`, () => resolve(opened));
    opened.once("error", reject);
  });
}

/** As many requests are under way as with one on each of 32 connections. */
async function requestsOver(port: number): Promise<number> {
  const sessions = await Promise.all(Array.from({ length: SESSIONS }, () => session(port)));
  const endsAt = performance.now() + DURATION_MS;
  let answered = 0;
  const ask = (on: ClientHttp2Session) =>
    new Promise<void>((resolve, reject) => {
      const request = on.request({ ":path": "/" });
      request.on("data", () => {});
      request.once("end", resolve);
      request.once("error", reject);
      request.end();
    });
  const asking = sessions.flatMap((on) =>
    Array.from({ length: STREAMS }, async () => {
      for (; performance.now() < endsAt; answered++) await ask(on);
    }),
  );
  await Promise.all(asking);
  for (const one of sessions) one.destroy();
  return answered;
}

/** Whether a stream is echoed, as WebSockets over HTTP/2 (RFC 8441) need it. */
async function carriesSockets(port: number): Promise<boolean> {
  const on = await session(port);
  const place = { ":scheme": "http", ":path": "/socket", ":authority": "127.0.0.1" };
  const stream = on.request({ ":method": "CONNECT", ":protocol": "websocket", ...place });
  const echoed = new Promise<boolean>((resolve) => {
    stream.once("response", () => stream.write("hello"));
    stream.once("data", () => resolve(true));
    stream.once("error", () => resolve(false));
    stream.once("close", () => resolve(false));
  });
  const answer = await Promise.race([echoed, Bun.sleep(ANSWER_WITHIN_MS).then(() => false)]);
  on.destroy();
  return answer;
}

export async function measureHttp2(): Promise<Measured[]> {
  const script = join(import.meta.dir, "http2-server.ts");
  const child = Bun.spawn([process.execPath, script], { stdout: "pipe", stderr: "inherit" });
  const { value } = await child.stdout.getReader().read();
  const ports = JSON.parse(new TextDecoder().decode(value)) as { one: number; two: number; node: number };
  const load = { headers: {}, connections: SESSIONS * STREAMS, pipelined: 1, durationMs: DURATION_MS };
  const ways: Record<string, () => Promise<number>> = {
    "HTTP/1.1": async () => (await requestsPerSecond({ ...load, url: `http://127.0.0.1:${ports.one}/` })).requests,
    "Bun's HTTP/2": () => requestsOver(ports.two),
    "node:http2": () => requestsOver(ports.node),
  };
  const times = new Map<string, number[]>(Object.keys(ways).map((name) => [name, []]));
  try {
    for (let round = 0; round <= ROUNDS; round++) {
      for (const [name, run] of Object.entries(ways)) {
        const before = mainThreadNanos(child.pid);
        const requests = await run();
        // The first warms up.
        if (round > 0) times.get(name)?.push((mainThreadNanos(child.pid) - before) / 1_000 / requests);
      }
    }
    return [
      ...[...times].map(([name, micros]) => ({
        what: `a bare request over ${name}`,
        value: median(micros),
        unit: "µs of CPU",
      })),
      { what: "WebSockets over Bun's HTTP/2 (1: yes)", value: Number(await carriesSockets(ports.two)), unit: "" },
      { what: "WebSockets over node:http2 (1: yes)", value: Number(await carriesSockets(ports.node)), unit: "" },
    ];
  } finally {
    child.kill("SIGKILL");
    await child.exited;
  }
}
