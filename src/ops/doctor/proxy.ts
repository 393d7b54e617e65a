import { messageOf } from "../../kernel/error-message.ts";
import { ARRIVAL_PATH, type Arrival } from "../../kernel/http/serving/arrival.ts";
import { type Check, type CheckContext, type CheckGroup, fail, pass, TIMEOUT_MS, warn } from "./check.ts";

const NAME = "proxy-headers";
const SHARED_LIMITS = "all clients look like one, and share its limits";

/** Checks the settings, and how a request to the public URL reaches the server. */
export const checkProxyHeaders: CheckGroup = async (context) => {
  const { TRUSTED_PROXIES } = context.config;
  if (TRUSTED_PROXIES.some((range) => /^(0\.0\.0\.0|::)\/0$/.test(range))) {
    return [fail(NAME, "any client is trusted to name its own address", "Name only the proxy in TRUSTED_PROXIES.")];
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
    const remedy = "PUBLIC_URL must lead to this server from this machine, too.";
    return [warn(NAME, `${config.PUBLIC_URL} is not reachable: ${messageOf(error)}`, remedy)];
  }
};

/** With https and without a certificate here, a reverse proxy must terminate TLS. */
function isProxied({ config: { PUBLIC_URL, TLS_CERT } }: CheckContext): boolean {
  return PUBLIC_URL?.startsWith("https:") === true && TLS_CERT === undefined;
}

function bySettings(context: CheckContext): Check {
  const { TRUSTED_PROXIES } = context.config;
  if (isProxied(context) && TRUSTED_PROXIES.length === 0) {
    const remedy = "Set TRUSTED_PROXIES to the proxy's address, such as 127.0.0.1,::1.";
    return warn(NAME, `https comes from a proxy that is not trusted: ${SHARED_LIMITS}`, remedy);
  }
  return pass(NAME, TRUSTED_PROXIES.length === 0 ? "no proxy is trusted" : `trusted: ${TRUSTED_PROXIES.join(", ")}`);
}

function byArrival(context: CheckContext, { peer, trusted, forwardedFor, forwardedProto, ip }: Arrival): Check {
  const scheme = context.config.PUBLIC_URL?.split(":")[0];
  if (forwardedFor === null) {
    if (!isProxied(context)) return pass(NAME, `clients connect directly: this machine is ${ip}`);
    const remedy = "Let the proxy set x-forwarded-for and x-forwarded-proto; `stoa manual proxies` shows how.";
    return warn(NAME, `the proxy at ${peer} does not name the client: ${SHARED_LIMITS}`, remedy);
  }
  if (!trusted) {
    const remedy = `If it is your proxy, add ${peer} to TRUSTED_PROXIES.`;
    return warn(NAME, `the proxy at ${peer} is not trusted: ${SHARED_LIMITS}`, remedy);
  }
  if (forwardedProto !== scheme) {
    const claim = forwardedProto === null ? "does not say" : `says ${forwardedProto}`;
    return warn(NAME, `the proxy at ${peer} ${claim}, where clients speak ${scheme}`, "Let it set x-forwarded-proto.");
  }
  return pass(NAME, `the proxy at ${peer} is trusted and names the client: this machine is ${ip}`);
}
