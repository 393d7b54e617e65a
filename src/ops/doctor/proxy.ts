import { ARRIVAL_PATH, type Arrival } from "../../kernel/http/serving/arrival.ts";
import { type Check, type CheckGroup, fail, TIMEOUT_MS, type CheckContext, pass, reasonOf, warn } from "./check.ts";

const NAME = "proxy-headers";
const ALL_ALIKE = "all clients look like one, and share its limits";

/** What the settings say, and then what a request through the public address looks like to the server. */
export const checkProxyHeaders: CheckGroup = async (context) => {
  const { TRUSTED_PROXIES } = context.config;
  if (TRUSTED_PROXIES.some((range) => /^(0\.0\.0\.0|::)\/0$/.test(range))) {
    return [fail(NAME, "everybody is trusted to say who he is", "Name only the proxy in TRUSTED_PROXIES.")];
  }
  const { running, config } = context;
  if (running === null || config.PUBLIC_URL === undefined) return [bySettings(context)];
  try {
    const response = await fetch(new URL(ARRIVAL_PATH, config.PUBLIC_URL), {
      headers: { authorization: `Bearer ${running.doctorSecret}` },
      redirect: "manual",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (!response.ok) throw new Error(`it answers ${response.status}`);
    return [byArrival(context, (await response.json()) as Arrival)];
  } catch (error) {
    const remedy = "PUBLIC_URL must lead to this server, also from this machine.";
    return [warn(NAME, `${config.PUBLIC_URL} cannot be asked: ${reasonOf(error)}`, remedy)];
  }
};

/** A proxy must be there when https is spoken and this server has no certificate. */
function isProxied({ config: { PUBLIC_URL, TLS_CERT } }: CheckContext): boolean {
  return PUBLIC_URL?.startsWith("https:") === true && TLS_CERT === undefined;
}

function bySettings(context: CheckContext): Check {
  const { TRUSTED_PROXIES } = context.config;
  if (isProxied(context) && TRUSTED_PROXIES.length === 0) {
    const remedy = "Set TRUSTED_PROXIES to the proxy's address, such as 127.0.0.1,::1.";
    return warn(NAME, `https comes from a proxy that is not trusted: ${ALL_ALIKE}`, remedy);
  }
  return pass(NAME, TRUSTED_PROXIES.length === 0 ? "no proxy is trusted" : `trusted: ${TRUSTED_PROXIES.join(", ")}`);
}

function byArrival(context: CheckContext, { peer, trusted, forwardedFor, forwardedProto, ip }: Arrival): Check {
  const scheme = context.config.PUBLIC_URL?.split(":")[0];
  if (forwardedFor === null) {
    if (!isProxied(context)) return pass(NAME, `clients come by themselves: this machine is ${ip}`);
    const remedy = "Let the proxy set x-forwarded-for and x-forwarded-proto; `stoa manual proxies` shows how.";
    return warn(NAME, `the proxy at ${peer} does not say for whom it asks: ${ALL_ALIKE}`, remedy);
  }
  if (!trusted) {
    const remedy = `If it is your proxy, add ${peer} to TRUSTED_PROXIES.`;
    return warn(NAME, `the proxy at ${peer} is not trusted: ${ALL_ALIKE}`, remedy);
  }
  if (forwardedProto !== scheme) {
    const said = forwardedProto === null ? "does not say" : `says ${forwardedProto}`;
    return warn(NAME, `the proxy at ${peer} ${said}, where clients speak ${scheme}`, "Let it set x-forwarded-proto.");
  }
  return pass(NAME, `the proxy at ${peer} is trusted, and says who asks: this machine is ${ip}`);
}
