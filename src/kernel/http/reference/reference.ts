import { join } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { type AnyElysia, Elysia } from "elysia";
import { ApiError } from "../../../protocol/errors.ts";
import { type CooperativeTask, runCooperatively, stringifyCooperatively } from "../../scheduling/cooperative-task.ts";
import { createLargeResponses, type LargeResponses } from "../serving/large-responses.ts";
import type { SchemaNames } from "./components.ts";

type ReferenceOptions = {
  /** Where the build put the viewer, already compressed. */
  folder: string;
  version: string;
  /** Asked at the first request: by then every route is there. */
  app: () => AnyElysia;
  /** Records and bodies by their names in the reference. */
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

/** Everything that would leave the machine is off: fonts, telemetry, hosted helpers. */
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

/** The viewer writes style elements of its own, hence the one exception; scripts and connections are ours alone. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self' data:; img-src 'self' data: blob:; connect-src 'self'; worker-src 'self' blob:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

const HEADERS = { "cache-control": "no-cache", "x-content-type-options": "nosniff" };
const SCRIPT = "text/javascript; charset=utf-8";

/** `/openapi.json`, `/asyncapi.json` for the sockets, and `/docs/api` to read the first in; none needs another host. */
export function referenceRoutes({ folder, version, app, schemas }: ReferenceOptions) {
  // What describes them is loaded for whoever asks first.
  const openapi = once(async () => {
    const { describeApi } = await import("./openapi.ts");
    return document(describeApi(app(), version, schemas));
  });
  const asyncapi = once(async () => {
    const { describeSockets } = await import("./asyncapi.ts");
    return document(describeSockets(version, schemas));
  });
  const start = once(() => packed(SCRIPT, START));
  const begins = createLargeResponses();
  const viewer = once(() => readPacked(SCRIPT, join(folder, "api-reference.js.gz")));

  return new Elysia({ detail: { hide: true } })
    .get("/openapi.json", async ({ request }) => answer(request, begins, await openapi()))
    .get("/asyncapi.json", async ({ request }) => answer(request, begins, await asyncapi()))
    .get("/docs/api", async () => {
      const page = PAGE.replace("viewer.js", `viewer.js?v=${(await viewer()).etag.slice(1, -1)}`);
      const headers = { ...HEADERS, "content-type": "text/html; charset=utf-8", "content-security-policy": POLICY };
      return new Response(page, { headers });
    })
    .get("/docs/start.js", async ({ request }) => answer(request, begins, await start()))
    .get("/docs/viewer.js", async ({ request }) => {
      const file = await viewer();
      // The page names the file by its hash; whoever asks without it must ask again next time.
      const named = new URL(request.url).search === `?v=${file.etag.slice(1, -1)}`;
      return answer(request, begins, file, named ? { "cache-control": IMMUTABLE } : {});
    });
}

const IMMUTABLE = "public, max-age=31536000, immutable";

/**
 * Bytes as they are sent to nearly everyone, and how to have them plain for whoever takes nothing else. As blobs, which all
 * answers share: of an array each would hold a copy until its reader has taken it, and a thousand of them take nothing.
 */
type Packed = { type: string; etag: string; gzipped: Blob; plain: () => Blob };

async function packed(type: string, text: string): Promise<Packed> {
  const bytes = new TextEncoder().encode(text);
  const plain = new Blob([bytes]);
  return { type, etag: etagOf(bytes), gzipped: new Blob([await gzipped(bytes)]), plain: () => plain };
}

/** Not on the thread that everybody else waits for. */
const gzipped = promisify<Uint8Array, Uint8Array<ArrayBuffer>>(gzip);

/** A quarter of a second of work: whoever asks for it first waits, and nobody else. */
async function document(describing: CooperativeTask<object>): Promise<Packed> {
  return packed("application/json", await runCooperatively(writeDocument(describing)));
}

function* writeDocument(describing: CooperativeTask<object>): CooperativeTask<string> {
  return yield* stringifyCooperatively(yield* describing, COOPERATIVE_LEVELS);
}

/** Down to a single schema, and to what one path does. */
const COOPERATIVE_LEVELS = 3;

/** Kept as the build packed it: 4 MB of script are unpacked once, for the first reader who cannot. */
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

async function answer(
  request: Request,
  begins: LargeResponses,
  { type, etag, gzipped, plain }: Packed,
  more: Record<string, string> = {},
): Promise<Response> {
  const headers = { ...HEADERS, "content-type": type, vary: "accept-encoding", etag, ...more };
  if (request.headers.get("if-none-match") === etag) return new Response(null, { status: 304, headers });
  const packs = /\bgzip\b/.test(request.headers.get("accept-encoding") ?? "");
  const body = packs ? gzipped : plain();
  await begins(body.size, request);
  return new Response(body, { headers: packs ? { ...headers, "content-encoding": "gzip" } : headers });
}

/** Made when first asked for and kept; what failed is tried again. */
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
