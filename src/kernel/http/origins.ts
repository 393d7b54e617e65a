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

/** `scheme://host[:port]` as a browser sends it, or null. */
export function normalOrigin(text: string): string | null {
  if (!URL.canParse(text)) return null;
  const url = new URL(text);
  const bare = url.pathname === "/" && !url.search && !url.hash && !url.username && !url.password;
  return bare && (url.protocol === "http:" || url.protocol === "https:") ? url.origin : null;
}

/** Same-origin by the public URL, or by the request's own host when none is configured. */
export function sameOrigin(origin: string | null, request: Request, publicUrl: string | undefined): boolean {
  if (origin === null) return true;
  if (publicUrl !== undefined && origin === new URL(publicUrl).origin) return true;
  const host = request.headers.get("host") ?? new URL(request.url).host;
  return publicUrl === undefined && (origin === `http://${host}` || origin === `https://${host}`);
}
