import { messageOf } from "../../kernel/error-message.ts";
import { createLog } from "../../kernel/log.ts";
import { domainProblem } from "../../network/tls/domain-check.ts";
import { mediaAddresses } from "../../nodes/media-addresses.ts";
import {
  type Check,
  type CheckContext,
  type CheckGroup,
  fail,
  pass,
  TIMEOUT_MS,
  warn,
  withoutServer,
} from "./check.ts";

/** Checks that DOMAIN resolves to this machine, and that http redirects to https. */
export const checkDomain: CheckGroup = async (context) => [await domain(context), await port80(context)];

async function domain({ config, running }: CheckContext): Promise<Check> {
  const name = "domain";
  const { DOMAIN } = config;
  if (DOMAIN === undefined) return pass(name, "none: a proxy ends TLS, or certificate files are used");
  const silent = createLog({ level: "silent", format: "json" });
  const announced = running?.announce ?? (await mediaAddresses(config, silent)).announce;
  const problem = await domainProblem(DOMAIN, announced);
  if (problem === null) return pass(name, `${DOMAIN} leads to this machine`);
  return fail(name, problem, "Authorities try AAAA before A: both must be this machine's.");
}

async function port80(context: CheckContext): Promise<Check> {
  const name = "port-80";
  const { DOMAIN, HTTP_PORT, TLS_CERT } = context.config;
  if (DOMAIN === undefined || HTTP_PORT === 0 || TLS_CERT !== undefined) return pass(name, "not used");
  if (!context.running) return withoutServer(name, context);
  const remedy = "Let in tcp 80, or set HTTP_PORT to 0: then the domain is proved at EDGE_PORT alone.";
  try {
    const url = `http://${DOMAIN}:${HTTP_PORT}/`;
    const response = await fetch(url, { redirect: "manual", signal: AbortSignal.timeout(TIMEOUT_MS) });
    return response.status === 308
      ? pass(name, `${url} leads to ${response.headers.get("location")}`)
      : warn(name, `${url} answers ${response.status}: another server has the port`, remedy);
  } catch (error) {
    return warn(name, `port ${HTTP_PORT} of ${DOMAIN}: ${messageOf(error)}`, remedy);
  }
}
