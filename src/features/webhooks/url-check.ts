import type { Config } from "../../kernel/config/index.ts";
import { listenAddresses } from "../../kernel/config/listen-addresses.ts";
import { isLoopback } from "../../kernel/net/addresses.ts";
import { type Target, targetOf } from "../../kernel/net/targets.ts";
import type { Environment } from "../../protocol/enums.ts";

/**
 * Loopback is allowed for a developer's receiver on the machine of a server that is bound to loopback too. On any other
 * server a user could probe other services of the machine.
 */
export const loopbackAllowed = (config: Config): boolean => isLoopback(config.HOST) && listenAddresses(config) === null;

/**
 * Whether the server may connect to an IP address to which a host resolves; it applies the rule of `refusalOf` to the
 * resolved address.
 */
export const targetRule =
  (environment: Environment, allowPrivate: boolean, allowLoopback: boolean) =>
  (target: Target): boolean => {
    if (target === "loopback") return allowPrivate || (environment !== "PRODUCTION" && allowLoopback);
    return target === "public" || (target === "private" && allowPrivate);
  };

/**
 * The reason why a URL cannot receive webhooks, for its owner; null when it can. Host names are resolved and checked
 * when something is sent, because their IP addresses change.
 */
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
