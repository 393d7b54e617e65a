import { existsSync } from "node:fs";
import { join } from "node:path";
import { type AnyElysia, Elysia } from "elysia";
import { ApiError } from "../../../protocol/errors.ts";
import type { SchemaNames } from "./components.ts";
import { describeApi } from "./openapi.ts";

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
    <noscript>The reference as data: <a href="/openapi.json">openapi.json</a></noscript>
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

const text = (type: string, body: string, headers: Record<string, string> = {}) =>
  new Response(body, {
    headers: { "content-type": type, "cache-control": "no-cache", "x-content-type-options": "nosniff", ...headers },
  });

/** `/openapi.json`, and `/docs` to read it in; both work without any other host. */
export function referenceRoutes({ folder, version, app, schemas }: ReferenceOptions) {
  const viewer = join(folder, "api-reference.js.gz");
  let document: string | null = null;

  return new Elysia({ detail: { hide: true } })
    .get("/openapi.json", () => {
      document ??= JSON.stringify(describeApi(app(), version, schemas));
      return text("application/json", document);
    })
    .get("/docs", () => text("text/html; charset=utf-8", PAGE, { "content-security-policy": POLICY }))
    .get("/docs/start.js", () => text("text/javascript; charset=utf-8", START))
    .get("/docs/viewer.js", async ({ request }) => {
      if (!existsSync(viewer)) throw new ApiError("SVC_ROUTE_NOT_FOUND");
      const headers = {
        "content-type": "text/javascript; charset=utf-8",
        "cache-control": "no-cache",
        "x-content-type-options": "nosniff",
        vary: "accept-encoding",
        etag: `"${version}"`,
      };
      if (request.headers.get("if-none-match") === headers.etag) return new Response(null, { status: 304, headers });
      const packed = await Bun.file(viewer).bytes();
      return /\bgzip\b/.test(request.headers.get("accept-encoding") ?? "")
        ? new Response(packed, { headers: { ...headers, "content-encoding": "gzip" } })
        : new Response(Bun.gunzipSync(packed), { headers });
    });
}
