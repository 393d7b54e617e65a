import ipaddr from "ipaddr.js";
import { ApiError } from "../../protocol/errors.ts";
import { isLoopback } from "../net/addresses.ts";

export type OriginPolicy = { allowedOrigins: string[]; allowLocalhostOrigins: boolean };

const LOCALHOSTS = new Set(["localhost", "127.0.0.1", "[::1]"]);

/** A request without an origin is not from a browser and is allowed. An empty list allows any origin. */
export function originAllowed(origin: string | null, policy: OriginPolicy): boolean {
  if (origin === null || policy.allowedOrigins.length === 0) return true;
  if (policy.allowedOrigins.includes(origin)) return true;
  return policy.allowLocalhostOrigins && isLocalhost(origin);
}

function isLocalhost(origin: string): boolean {
  if (!URL.canParse(origin)) return false;
  const { protocol, hostname } = new URL(origin);
  return (protocol === "http:" || protocol === "https:") && LOCALHOSTS.has(hostname);
}

/** Host names and IP addresses; the URL parser also accepts `*.example.com`, which is never the host of a page. */
const PAGE_HOST = /^(?:\[[0-9a-f:.]+\]|[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?)$/;

/** `scheme://host[:port]` as a browser sends it; null when the text is not an origin. */
export function normalOrigin(text: string): string | null {
  if (!URL.canParse(text)) return null;
  const url = new URL(text);
  const bare = url.pathname === "/" && !url.search && !url.hash && !url.username && !url.password;
  const isWeb = url.protocol === "http:" || url.protocol === "https:";
  return bare && isWeb && PAGE_HOST.test(url.hostname) ? url.origin : null;
}

/**
 * Whether the request's host can be this server's: the host of the public URL, a loopback name, or an IP address. Any other
 * name may belong to an attacker who made it resolve to this server after its page was loaded (DNS rebinding).
 */
export function isOwnHost(request: Request, publicUrl: string | undefined): boolean {
  const host = hostOf(request);
  if (publicUrl !== undefined && host === new URL(publicUrl).host) return true;
  if (!URL.canParse(`http://${host}`)) return false;
  const { hostname } = new URL(`http://${host}`);
  return isLoopback(hostname) || ipaddr.isValid(hostname.replaceAll(/[[\]]/g, ""));
}

/** Same-origin according to the public URL or, without one, to the request's own host if it can be trusted. */
export function sameOrigin(origin: string | null, request: Request, publicUrl: string | undefined): boolean {
  if (origin === null) return true;
  if (publicUrl !== undefined) return origin === new URL(publicUrl).origin;
  const host = hostOf(request);
  return (origin === `http://${host}` || origin === `https://${host}`) && isOwnHost(request, publicUrl);
}

const hostOf = (request: Request) => request.headers.get("host") ?? new URL(request.url).host;

/** The message tells the developer which origin to add, and where. */
export function originRefused(origin: string | null): ApiError {
  const printed = (origin ?? "").slice(0, 256);
  return new ApiError(
    "SVC_ORIGIN_NOT_ALLOWED",
    `The origin ${printed} is not in the project's allowedOrigins. Add it in the dashboard, or with PATCH /v1/projects/{projectId}/allowed-origins.`,
  );
}
