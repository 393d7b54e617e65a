import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzip, type ZlibOptions } from "node:zlib";
import { Elysia } from "elysia";
import { ApiError } from "../../../protocol/errors.ts";
import { createLargeResponses } from "./large-responses.ts";

/** The assets are Blobs, because all responses share them; each response would copy an array. */
type Asset = { type: string; plain: Blob; gzipped: Blob; etag: string };

type WebAssetOptions = {
  folder: string;
  version: string;
  /** The S3 bucket that pages upload files to and play recordings from. */
  bucketOrigins: string[];
};

/** Pages of other origins import the SDK as a module, which browsers fetch with CORS. It contains no secret. */
const ANY_ORIGIN = { "access-control-allow-origin": "*", "cross-origin-resource-policy": "cross-origin" };
/** Files that the SDK loads when a page needs them. */
const SDK_PART = /^sdk-[\w-]+\.js$/;
const TYPES = [
  [".d.ts", "text/plain; charset=utf-8"],
  [".tgz", "application/gzip"],
  [".md", "text/markdown; charset=utf-8"],
  [".txt", "text/plain; charset=utf-8"],
] as const;
/** Compresses in another thread: some WebAssembly has 6 MB, which would block the main thread for most of a second. */
const compress = promisify<Uint8Array, ZlibOptions, Buffer<ArrayBuffer>>(gzip);
const IMMUTABLE = "public, max-age=31536000, immutable";

/**
 * The pages and the browser SDK, from the folder that the build made. Only files found in it are served, so no path
 * leads out of it; for any other page that a browser navigates to, the dashboard is served, which has its own routes.
 */
export function webRoutes({ folder, version, bucketOrigins }: WebAssetOptions) {
  const names = new Set(listFiles(folder));
  const loaded = new Map<string, Promise<Asset>>();
  const load = (name: string): Promise<Asset> => {
    const known = loaded.get(name) ?? read(join(folder, name));
    loaded.set(name, known);
    // An error can be temporary (too many open files), so the next request retries.
    known.catch(() => loaded.delete(name));
    return known;
  };
  const policy = contentPolicy(bucketOrigins);
  // Only the playground processes video.
  const playgroundPolicy = policy.replace("script-src 'self'", "script-src 'self' 'wasm-unsafe-eval'");
  const admitLarge = createLargeResponses();

  async function serve(
    request: Request,
    name: string,
    cache: string,
    more: Record<string, string> = {},
  ): Promise<Response> {
    if (!names.has(name)) throw new ApiError("SVC_ROUTE_NOT_FOUND");
    const { type, plain, gzipped, etag } = await load(name);
    const headers: Record<string, string> = {
      "content-type": type,
      "cache-control": cache,
      "x-content-type-options": "nosniff",
      vary: "accept-encoding",
      etag,
      ...more,
    };
    if (type.startsWith("text/html")) {
      headers["content-security-policy"] = name.startsWith("playground/") ? playgroundPolicy : policy;
      headers["referrer-policy"] = "no-referrer";
    }
    if (request.headers.get("if-none-match") === etag) return new Response(null, { status: 304, headers });
    // A package is already compressed; with a content-encoding it would be decompressed in transit, and npm would
    // reject it.
    const gzip = gzipped !== plain && /\bgzip\b/.test(request.headers.get("accept-encoding") ?? "");
    const body = gzip ? gzipped : plain;
    await admitLarge(body.size, request);
    return new Response(body, {
      headers: gzip ? { ...headers, "content-encoding": "gzip" } : headers,
    });
  }

  const parts = new Elysia({ detail: { hide: true } });
  for (const name of names)
    if (SDK_PART.test(name)) parts.get(`/${name}`, ({ request }) => serve(request, name, "no-cache", ANY_ORIGIN));

  // The bundles of the playground look for the encryption worker beside them, although its name has no hash.
  return parts
    .get("/sdk.js", ({ request }) => serve(request, "sdk.js", "no-cache", ANY_ORIGIN))
    .get("/sdk.d.ts", ({ request }) => serve(request, "sdk.d.ts", "no-cache", ANY_ORIGIN))
    .get(`/sdk-${version}.js`, ({ request }) => serve(request, "sdk.js", IMMUTABLE, ANY_ORIGIN))
    .get("/encryption-worker.js", ({ request }) => serve(request, "encryption-worker.js", "no-cache", ANY_ORIGIN))
    .get("/assets/encryption-worker.js", ({ request }) => serve(request, "encryption-worker.js", "no-cache"))
    .get("/processors.js", ({ request }) => serve(request, "processors.js", "no-cache", ANY_ORIGIN))
    .get("/processors/*", ({ request, params }) =>
      serve(request, `processors/${params["*"]}`, "public, max-age=86400", ANY_ORIGIN),
    )
    .get("/embed.js", ({ request }) => serve(request, "embed.js", "no-cache", ANY_ORIGIN))
    .get("/stoa.tgz", ({ request }) => serve(request, "stoa.tgz", "no-cache", ANY_ORIGIN))
    .get("/playground", ({ request }) => serve(request, "playground/index.html", "no-cache"))
    .get("/replay", ({ request }) => serve(request, "replay/index.html", "no-cache"))
    .get("/docs", ({ request }) => serve(request, "docs/start.html", "no-cache"))
    .get("/docs/search.json", ({ request }) => serve(request, "docs/search.json", "no-cache"))
    .get("/llms.txt", ({ request }) => serve(request, "docs/llms.txt", "no-cache"))
    .get("/docs/:guide", ({ request, params: { guide } }) =>
      serve(request, /\.(md|txt)$/.test(guide) ? `docs/${guide}` : `docs/${guide}.html`, "no-cache"),
    )
    .get("/assets/*", ({ request, params }) => serve(request, `assets/${params["*"]}`, IMMUTABLE))
    .get("/*", ({ request, path }) => {
      const navigates = /\btext\/html\b/.test(request.headers.get("accept") ?? "");
      if (path !== "/" && (path.startsWith("/v1/") || !navigates)) throw new ApiError("SVC_ROUTE_NOT_FOUND");
      return serve(request, "dashboard/index.html", "no-cache");
    });
}

function listFiles(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1));
}

async function read(path: string): Promise<Asset> {
  const file = Bun.file(path);
  const bytes = await file.bytes();
  const plain = new Blob([bytes]);
  return {
    type: TYPES.find(([ending]) => path.endsWith(ending))?.[1] ?? file.type,
    plain,
    gzipped: path.endsWith(".tgz") ? plain : new Blob([await compress(bytes, { level: 9 })]),
    etag: `"${Bun.hash(bytes).toString(36)}"`,
  };
}

/** The policy allows no inline script or style, no eval, nothing from other origins, and no framing by other pages. */
function contentPolicy(bucketOrigins: string[]): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "font-src 'self'",
    "img-src 'self' data: blob: https:",
    `media-src ${["'self'", "blob:", ...bucketOrigins].join(" ")}`,
    "manifest-src 'self'",
    "worker-src 'self' blob:",
    `connect-src ${["'self'", ...bucketOrigins].join(" ")}`,
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
  ].join("; ");
}
