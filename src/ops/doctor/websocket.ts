import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import { messageOf } from "../../kernel/error-message.ts";
import { type Check, type CheckContext, fail, pass, TIMEOUT_MS, withoutServer } from "./check.ts";
import { loopbackOf } from "./ports.ts";

type Cause = { detail: string; remedy: string };

/** The server accepts every WebSocket and then reports errors on it, so an open socket is sufficient. */
export async function checkWebsocket(context: CheckContext): Promise<Check> {
  const { config, running } = context;
  const name = "websocket";
  const base = config.PUBLIC_URL ?? (running ? loopbackOf(running.url) : undefined);
  if (base === undefined) return withoutServer(name, context);
  // Without PUBLIC_URL the server is reached on loopback, for which no certificate is valid.
  const rejectUnauthorized = config.PUBLIC_URL !== undefined;
  const problem = await socketProblem(base, rejectUnauthorized);
  if (problem === null) return pass(name, `${base} takes WebSockets`);
  const { detail, remedy } = await causeOf(new URL(base), rejectUnauthorized, problem);
  return fail(name, `${base}: ${detail}`, remedy);
}

async function socketProblem(base: string, rejectUnauthorized: boolean): Promise<string | null> {
  const url = `${base.replace(/^http/, "ws").replace(/\/$/, "")}/v1/rtc`;
  const socket = new WebSocket(url, { tls: { rejectUnauthorized } } as never);
  const { promise, resolve } = Promise.withResolvers<string | null>();
  const timer = setTimeout(() => resolve("no answer in time"), TIMEOUT_MS);
  socket.onopen = () => resolve(null);
  socket.onerror = (event) => resolve((event as ErrorEvent).message || "the connection failed");
  socket.onclose = ({ code }) => resolve(`closed with ${code}`);
  const problem = await promise;
  clearTimeout(timer);
  socket.onerror = null;
  socket.close();
  return problem;
}

/**
 * A failed WebSocket does not report a reason, so the name, the port, the certificate and the proxy are checked one by
 * one.
 */
async function causeOf(base: URL, rejectUnauthorized: boolean, problem: string): Promise<Cause> {
  const host = base.hostname.replace(/^\[|\]$/g, "");
  const port = base.port || (base.protocol === "https:" ? "443" : "80");
  const unresolved = isIP(host) ? null : await lookup(host).then(() => null, codeOf);
  if (unresolved !== null) {
    return {
      detail: `DNS does not know ${host} (${unresolved})`,
      remedy: `Point the A or AAAA record of ${host} at this machine, or correct PUBLIC_URL.`,
    };
  }
  const status = await statusOf(base, rejectUnauthorized);
  if (typeof status === "number") return byStatus(status, problem);
  if (base.protocol === "https:" && rejectUnauthorized) {
    // A response without verification means that clients reject the certificate.
    const unchecked = await statusOf(base, false);
    if (typeof unchecked === "number") return byCertificate(host, status);
  }
  return {
    detail: `nothing answers there (${status})`,
    remedy: `Start the server or the proxy at port ${port}, and let in tcp ${port}.`,
  };
}

function byCertificate(host: string, reason: string): Cause {
  if (reason === "CERT_HAS_EXPIRED") {
    return {
      detail: `its certificate has expired (${reason})`,
      remedy: `Renew the certificate for ${host}, let what ends TLS load it, and find out why that did not happen by itself.`,
    };
  }
  return {
    detail: `its certificate is refused (${reason})`,
    remedy: `Let what ends TLS send a certificate for ${host} that is valid now, with its whole chain.`,
  };
}

function byStatus(status: number, problem: string): Cause {
  if (status === 200) {
    return {
      detail: `requests pass, WebSockets do not: ${problem}`,
      remedy: "The proxy must pass on WebSockets (upgrade and connection headers) to this server.",
    };
  }
  return {
    detail: `/healthz answers ${status} there`,
    remedy: "The proxy does not reach this server: compare the address it passes requests to with HOST and PORT.",
  };
}

/** The status of `/healthz`, or the code of the failure. */
async function statusOf(base: URL, rejectUnauthorized: boolean): Promise<number | string> {
  const options = {
    redirect: "manual",
    signal: AbortSignal.timeout(TIMEOUT_MS),
    tls: { rejectUnauthorized },
  } as const;
  const url = `${base.href.replace(/\/$/, "")}/healthz`;
  return fetch(url, options).then(({ status }) => status, codeOf);
}

function codeOf(error: unknown): string {
  const { code } = error as { code?: unknown };
  return typeof code === "string" ? code : messageOf(error);
}
