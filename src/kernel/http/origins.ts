import ipaddr from "ipaddr.js";
import { ApiError } from "../../protocol/errors.ts";
import { isLoopback } from "../loopback.ts";

/** Which browser origins may use a project. */
export type OriginPolicy = { allowedOrigins: string[]; allowLocalhostOrigins: boolean };

const LOCALHOSTS = new Set(["localhost", "127.0.0.1", "[::1]"]);

/** No origin: no browser, passes. An empty list is an unconfigured project and allows any. */
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

/** Names and addresses; the parser also lets `*.example.com` pass, which no page is ever at. */
const HOST_OF_A_PAGE = /^(?:\[[0-9a-f:.]+\]|[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?)$/;

/** `scheme://host[:port]` as a browser sends it, or null. */
export function normalOrigin(text: string): string | null {
  if (!URL.canParse(text)) return null;
  const url = new URL(text);
  const bare = url.pathname === "/" && !url.search && !url.hash && !url.username && !url.password;
  const isWeb = url.protocol === "http:" || url.protocol === "https:";
  return bare && isWeb && HOST_OF_A_PAGE.test(url.hostname) ? url.origin : null;
}

/**
 * Whether the name in the request can be this server's: that of the public URL; without one only a name that nobody else
 * can point here. Any other may be a stranger's, made to resolve to this address once its page was loaded (DNS rebinding).
 */
export function isOwnHost(request: Request, publicUrl: string | undefined): boolean {
  const host = hostOf(request);
  if (publicUrl !== undefined && host === new URL(publicUrl).host) return true;
  if (!URL.canParse(`http://${host}`)) return false;
  const { hostname } = new URL(`http://${host}`);
  return isLoopback(hostname) || ipaddr.isValid(hostname.replaceAll(/[[\]]/g, ""));
}

/** Same-origin by the public URL, or by the request's own host when none is configured and that can be believed. */
export function sameOrigin(origin: string | null, request: Request, publicUrl: string | undefined): boolean {
  if (origin === null) return true;
  if (publicUrl !== undefined) return origin === new URL(publicUrl).origin;
  const host = hostOf(request);
  return (origin === `http://${host}` || origin === `https://${host}`) && isOwnHost(request, publicUrl);
}

const hostOf = (request: Request) => request.headers.get("host") ?? new URL(request.url).host;

/** Says what to add, and where: whoever meets it is setting up a page of theirs. */
export function originRefused(origin: string | null): ApiError {
  const shown = (origin ?? "").slice(0, 256);
  return new ApiError(
    "SVC_ORIGIN_NOT_ALLOWED",
    `The origin ${shown} is not in the project's allowedOrigins. Add it in the dashboard, or with PATCH /v1/projects/{projectId}/allowed-origins.`,
  );
}
