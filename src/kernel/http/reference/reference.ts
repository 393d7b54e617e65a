import { join } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { type AnyElysia, Elysia } from "elysia";
import { ApiError } from "../../../protocol/errors.ts";
import { type CooperativeTask, runCooperatively, stringifyCooperatively } from "../../scheduling/cooperative-task.ts";
import { createLargeResponses, type LargeResponses } from "../serving/large-responses.ts";
import type { SchemaNames } from "./components.ts";

type ReferenceOptions = {
  folder: string;
  version: string;
  /** Called on the first request, when all routes exist. */
  app: () => AnyElysia;
  /** Schemas of records and bodies by their name in the reference. */
  schemas: SchemaNames;
};

const PAGE = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <link rel="icon" href="data:," />
    <title>Stoa API reference</title>
  </head>
  <body>
    <noscript>The reference as data: <a href="/openapi.json">openapi.json</a>. The guides: <a href="/docs">/docs</a></noscript>
    <div id="reference"></div>
    <script src="/docs/viewer.js"></script>
    <script src="/docs/start.js"></script>
  </body>
</html>
`;

/** All options that would contact other hosts are off: fonts, telemetry, hosted services. */
const START = `Scalar.createApiReference("#reference", {
  url: "/openapi.json",
  withDefaultFonts: false,
  telemetry: false,
  agent: { disabled: true },
  mcp: { disabled: true },
  hideClientButton: true,
  showDeveloperTools: "never",
  defaultOpenAllTags: false,
});
`;

/** The reference viewer creates style elements, hence the exception for styles. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self' data:; img-src 'self' data: blob:; connect-src 'self'; worker-src 'self' blob:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

const HEADERS = { "cache-control": "no-cache", "x-content-type-options": "nosniff" };
const SCRIPT = "text/javascript; charset=utf-8";

/**
 * `/openapi.json`, `/asyncapi.json` for the sockets, and the reference viewer at `/docs/api`, without requests to other
 * hosts.
 */
export function referenceRoutes({ folder, version, app, schemas }: ReferenceOptions) {
  // The code that creates the documents is loaded on the first request.
  const openapi = once(async () => {
    const { describeApi } = await import("./openapi.ts");
    return document(describeApi(app(), version, schemas));
  });
  const asyncapi = once(async () => {
    const { describeSockets } = await import("./asyncapi.ts");
    return document(describeSockets(version, schemas));
  });
  const start = once(() => packed(SCRIPT, START));
  const admitLarge = createLargeResponses();
  const viewer = once(() => readPacked(SCRIPT, join(folder, "api-reference.js.gz")));

  return new Elysia({ detail: { hide: true } })
    .get("/openapi.json", async ({ request }) => respond(request, admitLarge, await openapi()))
    .get("/asyncapi.json", async ({ request }) => respond(request, admitLarge, await asyncapi()))
    .get("/docs/api", async () => {
      const page = PAGE.replace("viewer.js", `viewer.js?v=${(await viewer()).etag.slice(1, -1)}`);
      const headers = { ...HEADERS, "content-type": "text/html; charset=utf-8", "content-security-policy": POLICY };
      return new Response(page, { headers });
    })
    .get("/docs/start.js", async ({ request }) => respond(request, admitLarge, await start()))
    .get("/docs/viewer.js", async ({ request }) => {
      const file = await viewer();
      // The page requests the file with its hash; without the hash the file must be revalidated.
      const named = new URL(request.url).search === `?v=${file.etag.slice(1, -1)}`;
      return respond(request, admitLarge, file, named ? { "cache-control": IMMUTABLE } : {});
    });
}

const IMMUTABLE = "public, max-age=31536000, immutable";

/**
 * A compressed document, and an uncompressed one for clients without gzip. Both are Blobs, because each response would
 * copy an array.
 */
type Packed = { type: string; etag: string; gzipped: Blob; plain: () => Blob };

async function packed(type: string, text: string): Promise<Packed> {
  const bytes = new TextEncoder().encode(text);
  const plain = new Blob([bytes]);
  return { type, etag: etagOf(bytes), gzipped: new Blob([await gzipped(bytes)]), plain: () => plain };
}

/** Compression runs in another thread. */
const gzipped = promisify<Uint8Array, Uint8Array<ArrayBuffer>>(gzip);

/** Creating a document takes a quarter of a second; only the first request waits for it. */
async function document(describing: CooperativeTask<object>): Promise<Packed> {
  return packed("application/json", await runCooperatively(writeDocument(describing)));
}

function* writeDocument(describing: CooperativeTask<object>): CooperativeTask<string> {
  return yield* stringifyCooperatively(yield* describing, COOPERATIVE_LEVELS);
}

/** The level of single schemas, and of the operations of a path. */
const COOPERATIVE_LEVELS = 3;

/** The files are kept compressed: the 4 MB of script are decompressed for the first client without gzip. */
async function readPacked(type: string, path: string): Promise<Packed> {
  const file = Bun.file(path);
  if (!(await file.exists())) throw new ApiError("SVC_ROUTE_NOT_FOUND");
  const gzipped = await file.bytes();
  let plain: Blob | undefined;
  return {
    type,
    etag: etagOf(gzipped),
    gzipped: new Blob([gzipped]),
    plain: () => {
      plain ??= new Blob([Bun.gunzipSync(gzipped)]);
      return plain;
    },
  };
}

const etagOf = (bytes: Uint8Array) => `"${Bun.hash(bytes).toString(36)}"`;

async function respond(
  request: Request,
  admitLarge: LargeResponses,
  { type, etag, gzipped, plain }: Packed,
  more: Record<string, string> = {},
): Promise<Response> {
  const headers = { ...HEADERS, "content-type": type, vary: "accept-encoding", etag, ...more };
  if (request.headers.get("if-none-match") === etag) return new Response(null, { status: 304, headers });
  const acceptsGzip = /\bgzip\b/.test(request.headers.get("accept-encoding") ?? "");
  const body = acceptsGzip ? gzipped : plain();
  await admitLarge(body.size, request);
  return new Response(body, { headers: acceptsGzip ? { ...headers, "content-encoding": "gzip" } : headers });
}

/** Calls `make` once and keeps its result; after a failure it is called again. */
function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    made ??= make().catch((error) => {
      made = undefined;
      throw error;
    });
    return made;
  };
}
