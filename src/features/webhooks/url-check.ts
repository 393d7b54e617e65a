import ipaddr from "ipaddr.js";
import type { Config } from "../../kernel/config/index.ts";
import { listenAddresses } from "../../kernel/config/listen-addresses.ts";
import { isLoopback } from "../../kernel/net/addresses.ts";
import type { Environment } from "../../protocol/enums.ts";

/**
 * Loopback is allowed for a developer's receiver beside a server that is bound to loopback too. On any other server an
 * account could use it to probe what else runs on the machine.
 */
export const loopbackAllowed = (config: Config): boolean => isLoopback(config.HOST) && listenAddresses(config) === null;

/** The reason why a URL cannot receive webhooks, for its owner; null when it can. Host names are not resolved. */
export function refusalOf(
  text: string,
  environment: Environment,
  allowPrivate: boolean,
  allowLoopback = true,
): string | null {
  if (!URL.canParse(text)) return "is not a URL";
  const url = new URL(text);
  if (url.protocol !== "https:" && url.protocol !== "http:") return "must be an https URL";
  if (url.username !== "" || url.password !== "") return "must not contain a user name or password";

  const target = targetOf(url.hostname);
  if (target === "forbidden") return "points to an address that is not on the public internet";
  if (target === "loopback" && !allowPrivate) {
    if (environment === "PRODUCTION") return "points to this machine";
    if (!allowLoopback) return "points to this machine, which others reach too; WEBHOOK_ALLOW_PRIVATE=true allows it";
  }
  if (target === "private" && !allowPrivate) return "points into a private network";
  if (url.protocol === "https:") return null;
  if (target === "private" || target === "loopback") return null;
  return environment === "PRODUCTION" ? "must use https" : "must use https; http is for loopback only";
}

/** An operator can allow `private` targets, but never `forbidden` ones. */
type Target = "public" | "loopback" | "private" | "forbidden";

function targetOf(hostname: string): Target {
  const host = hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");
  // The URL parser has turned decimal, hex, octal and short forms into dotted quads.
  if (ipaddr.isValid(host)) return addressTarget(ipaddr.process(host));

  const labels = host.split(".");
  if (labels.some((label) => label === "")) return "forbidden";
  if (host === "localhost") return "loopback";
  const last = labels.at(-1) ?? "";
  if (last === "localhost") return "forbidden";
  return labels.length === 1 || last === "local" || last === "internal" ? "private" : "public";
}

const GLOBAL_IPV6 = ipaddr.IPv6.parseCIDR("2000::/3");

function addressTarget(address: ipaddr.IPv4 | ipaddr.IPv6): Target {
  switch (address.range()) {
    case "loopback":
      return "loopback";
    case "private":
    case "uniqueLocal":
    case "carrierGradeNat":
      return "private";
    case "unicast":
      // ipaddr.js calls every range without a name unicast, also `::7f00:1`, an old form of 127.0.0.1.
      return address instanceof ipaddr.IPv4 || address.match(GLOBAL_IPV6) ? "public" : "forbidden";
    default:
      return "forbidden";
  }
}
