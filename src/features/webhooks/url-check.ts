import ipaddr from "ipaddr.js";
import { edgePlace } from "../../kernel/config/edge-place.ts";
import type { Config } from "../../kernel/config/index.ts";
import { isLoopback } from "../../kernel/loopback.ts";
import type { Environment } from "../../protocol/enums.ts";

/**
 * Loopback is for a developer whose receiver runs beside a server that nobody else can reach. On one that others reach,
 * any account could ask it what else runs on its machine.
 */
export const loopbackAllowed = (config: Config): boolean => isLoopback(config.HOST) && edgePlace(config) === null;

/** Why a URL cannot receive webhooks, in words for its owner; null when it can. Names are not resolved. */
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

/** `private` may be allowed by the operator, `forbidden` never. */
type Target = "public" | "loopback" | "private" | "forbidden";

function targetOf(hostname: string): Target {
  const host = hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");
  // The URL parser has already turned decimal, hex, octal and short spellings into dotted quads.
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
      // ipaddr.js calls everything it has no name for unicast, `::7f00:1` (the old spelling of 127.0.0.1) included.
      return address instanceof ipaddr.IPv4 || address.match(GLOBAL_IPV6) ? "public" : "forbidden";
    default:
      return "forbidden";
  }
}
