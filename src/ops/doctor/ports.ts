import type { Config } from "../../kernel/config/index.ts";
import { messageOf } from "../../kernel/error-message.ts";
import { type Check, type CheckContext, type CheckGroup, fail, pass, TIMEOUT_MS, warn } from "./check.ts";

const NOT_READY = "See «The server is not ready» in `stoa manual troubleshooting`.";

export const checkPorts: CheckGroup = async (context) => [await httpPort(context), await mediaPorts(context)];

async function httpPort({ config: { HOST, PORT }, running, standby }: CheckContext): Promise<Check> {
  const name = "http-port";
  if (running) {
    const response = await fetch(`${loopbackOf(running.url)}/readyz`, {
      tls: { rejectUnauthorized: false },
      signal: AbortSignal.timeout(TIMEOUT_MS),
    }).catch(messageOf);
    if (typeof response === "string") return fail(name, `the server does not answer: ${response}`, "Look at its log.");
    if (response.ok) return pass(name, `the running server answers at ${running.url}`);
    const { reasons } = (await response.json()) as { reasons: Record<string, string> };
    return warn(name, `the running server is not ready: ${JSON.stringify(reasons)}`, NOT_READY);
  }
  if (standby) return standbyPort(name, standby.url);
  try {
    const listener = Bun.listen({ hostname: HOST, port: PORT, socket: { data: () => {} } });
    listener.stop(true);
    return pass(name, `${HOST}:${PORT} is free`);
  } catch (error) {
    const remedy = PORT < 1024 ? "Choose another PORT, or give CAP_NET_BIND_SERVICE." : "Choose another PORT or HOST.";
    return fail(name, `${HOST}:${PORT} cannot be used: ${messageOf(error)}`, remedy);
  }
}

/** A standby is never ready: it responds with the leader or with the state that it waits for. */
async function standbyPort(name: "http-port", url: string): Promise<Check> {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const response = await fetch(`${loopbackOf(url)}/readyz`, { signal }).catch(messageOf);
  if (typeof response === "string") return fail(name, `the standby does not answer: ${response}`, "Look at its log.");
  const { leader, reasons } = (await response.json()) as { leader: string | null; reasons: Record<string, string> };
  return leader !== null && reasons.standby === `${leader} leads`
    ? pass(name, `the running standby answers at ${url}, and ${leader} leads`)
    : warn(name, `the running standby waits: ${Object.values(reasons).join("; ")}`, NOT_READY);
}

async function mediaPorts({ config, running }: CheckContext): Promise<Check> {
  const name = "media-ports";
  if (running) return pass(name, `the running server holds ${running.mediaPorts.join(", ")}`);
  const ports = wantedPorts(config);
  for (const port of ports) {
    try {
      const socket = await Bun.udpSocket({ hostname: "0.0.0.0", port });
      socket.close();
      Bun.listen({ hostname: "0.0.0.0", port, socket: { data: () => {} } }).stop(true);
    } catch (error) {
      return fail(name, `${port} cannot be used: ${messageOf(error)}`, "Choose another MEDIA_UDP_PORT.");
    }
  }
  return pass(name, `${ports.join(", ")} are free, udp and tcp`);
}

function wantedPorts({ MEDIA_UDP_PORT: first, MEDIA_WORKERS: workers }: Config): number[] {
  return first === 0 ? [] : Array.from({ length: workers }, (_, index) => first + index);
}

/** A server on all interfaces is reached at its loopback address. */
export function loopbackOf(url: string): string {
  return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:");
}
