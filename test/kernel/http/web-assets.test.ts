import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Elysia } from "elysia";
import { toApiError } from "../../../src/kernel/http/errors.ts";
import { webRoutes } from "../../../src/kernel/http/serving/web-assets.ts";

const parent = mkdtempSync(join(tmpdir(), "stoa-web-"));
afterAll(() => rmSync(parent, { recursive: true }));
const folder = join(parent, "web");
for (const sub of ["assets", "dashboard", "playground", "processors"])
  mkdirSync(join(folder, sub), { recursive: true });
writeFileSync(join(folder, "dashboard/index.html"), "<title>dashboard</title>");
writeFileSync(join(folder, "playground/index.html"), "<title>playground</title>");
writeFileSync(join(folder, "assets/main-abc.js"), "console.log(1)");
writeFileSync(join(folder, "processors/model.wasm"), "\0asm".repeat(1_000));
writeFileSync(join(folder, "sdk.js"), "export const version = 1");
writeFileSync(join(parent, "secret"), "s3cret");

const app = new Elysia()
  .onError(({ code, error, set }) => {
    set.status = toApiError(code, error).status;
    return "error";
  })
  .use(webRoutes({ folder, version: "9.9.9", bucketOrigins: ["https://bucket.example"] }));

const get = (path: string, headers: Record<string, string> = {}) =>
  app.handle(new Request(`http://localhost${path}`, { headers }));

test("[10] the dashboard page is never cached, cannot be framed, and runs no script of other origins", async () => {
  const { status, headers } = await get("/");
  const policy = headers.get("content-security-policy") ?? "";
  expect(status).toBe(200);
  expect(headers.get("cache-control")).toBe("no-cache");
  expect(headers.get("x-content-type-options")).toBe("nosniff");
  expect(policy).toContain("frame-ancestors 'none'");
  expect(policy).toContain("connect-src 'self' https://bucket.example;");
  expect(policy).not.toMatch(/unsafe|\*/);
});

test("[10] only the playground, which processes video, runs WebAssembly, and neither evaluates text", async () => {
  const policyOf = async (path: string) => (await get(path)).headers.get("content-security-policy") ?? "";
  expect(await policyOf("/playground")).toContain("script-src 'self' 'wasm-unsafe-eval';");
  expect(await policyOf("/playground")).not.toContain("'unsafe-");
  expect(await policyOf("/")).toContain("script-src 'self';");
});

test("[10] pages of other origins load processors and their files, compressed", async () => {
  const { headers, status } = await get("/processors/model.wasm", { "accept-encoding": "gzip" });
  expect(status).toBe(200);
  expect(headers.get("access-control-allow-origin")).toBe("*");
  expect(headers.get("content-type")).toBe("application/wasm");
  expect(headers.get("content-encoding")).toBe("gzip");
  expect((await get("/processors/..%2fsecret")).status).toBe(404);
});

test("[10] hashed files and the versioned SDK are immutable, the plain SDK is not", async () => {
  expect((await get("/assets/main-abc.js")).headers.get("cache-control")).toContain("immutable");
  expect((await get("/sdk-9.9.9.js")).headers.get("cache-control")).toContain("immutable");
  expect((await get("/sdk.js")).headers.get("cache-control")).toBe("no-cache");
  expect((await get("/sdk-9.9.8.js")).status).toBe(404);
});

test("[10] a deep link opens the dashboard for browser navigation only", async () => {
  expect(await (await get("/projects/1", { accept: "text/html" })).text()).toContain("dashboard");
  expect((await get("/projects/1", { accept: "application/json" })).status).toBe(404);
  expect((await get("/v1/nothing", { accept: "text/html" })).status).toBe(404);
});

test("[10] no path leads out of the folder", async () => {
  for (const path of [
    "/assets/../../secret",
    "/assets/..%2f..%2fsecret",
    "/assets/%2e%2e/%2e%2e/secret",
    "/assets//secret",
  ]) {
    const response = await get(path);
    expect(response.status).toBe(404);
    expect(await response.text()).not.toContain("s3cret");
  }
});

test("[10] responses are compressed for clients that accept it, and not sent again when unchanged", async () => {
  const zipped = await get("/sdk.js", { "accept-encoding": "br, gzip" });
  expect(zipped.headers.get("content-encoding")).toBe("gzip");
  expect(Bun.gunzipSync(await zipped.bytes())).toEqual(await (await get("/sdk.js")).bytes());
  const etag = zipped.headers.get("etag") ?? "";
  expect((await get("/sdk.js", { "if-none-match": etag })).status).toBe(304);
});

test("a file that could not be read is read again for the next request", async () => {
  const path = join(folder, "assets/late.js");
  writeFileSync(path, "");
  const late = new Elysia()
    .onError(({ set }) => {
      set.status = 500;
      return "error";
    })
    .use(webRoutes({ folder, version: "9.9.9", bucketOrigins: [] }));
  const ask = () => late.handle(new Request("http://localhost/assets/late.js"));
  rmSync(path);
  expect((await ask()).status).toBe(500);
  writeFileSync(path, "console.log(2)");
  expect((await ask()).status).toBe(200);
});
