import { createLog } from "../../kernel/log.ts";
import { domainProblem } from "../../network/tls/domain-check.ts";
import { mediaAddresses } from "../../nodes/addresses.ts";
import { type Check, type Examination, fail, PATIENCE_MS, type Patient, pass, reasonOf, warn } from "./check.ts";

/** What DOMAIN promises: that its name leads here, and that http leads to https. */
export const examineDomain: Examination = async (patient) => [await domain(patient), await port80(patient)];

async function domain({ config, running }: Patient): Promise<Check> {
  const name = "domain";
  const { DOMAIN } = config;
  if (DOMAIN === undefined) return pass(name, "none: a proxy ends TLS, or certificate files are used");
  const silent = createLog({ level: "silent", format: "json" });
  const announced = running?.announce ?? (await mediaAddresses(config, silent)).announce;
  const problem = await domainProblem(DOMAIN, announced);
  if (problem === null) return pass(name, `${DOMAIN} leads to this machine`);
  return fail(name, problem, "Authorities try AAAA before A: both must be this machine's.");
}

async function port80({ config, running }: Patient): Promise<Check> {
  const name = "port-80";
  const { DOMAIN, HTTP_PORT, TLS_CERT } = config;
  if (DOMAIN === undefined || HTTP_PORT === 0 || TLS_CERT !== undefined) return pass(name, "not used");
  if (!running) return warn(name, "no server is running", "Start it and run `stoa doctor` again.");
  const remedy = "Let in tcp 80, or set HTTP_PORT to 0: then the domain is proved at EDGE_PORT alone.";
  try {
    const url = `http://${DOMAIN}:${HTTP_PORT}/`;
    const answer = await fetch(url, { redirect: "manual", signal: AbortSignal.timeout(PATIENCE_MS) });
    return answer.status === 308
      ? pass(name, `${url} leads to ${answer.headers.get("location")}`)
      : warn(name, `${url} answers ${answer.status}: another server has the port`, remedy);
  } catch (error) {
    return warn(name, `port ${HTTP_PORT} of ${DOMAIN}: ${reasonOf(error)}`, remedy);
  }
}
