import { afterAll, expect, test } from "bun:test";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { attachmentWorld } from "./attachment-world.ts";

const world = await attachmentWorld();
afterAll(world.close);
const content = "0123456789";
const { id } = await world.upload(content, world.alice, { filename: 'a "b" ü.txt', mimeType: "text/html" });
const url = await world.downloadUrl(id);
const get = (headers: Record<string, string> = {}, method = "GET") => fetch(url, { method, headers });

test("[contract 9] a download has the declared type and headers that keep a browser from interpreting it", async () => {
  const response = await get();
  expect(response.status).toBe(200);
  expect(await response.text()).toBe(content);
  const { headers } = response;
  expect(headers.get("content-type")).toBe("text/html");
  expect(headers.get("content-disposition")).toBe(
    "attachment; filename=\"a _b_ _.txt\"; filename*=UTF-8''a%20%22b%22%20%C3%BC.txt",
  );
  expect(headers.get("x-content-type-options")).toBe("nosniff");
  expect(headers.get("content-security-policy")).toContain("sandbox");
  expect(headers.get("cache-control")).toBe("private, max-age=900");
  expect(headers.get("content-length")).toBe("10");
  expect(headers.get("accept-ranges")).toBe("bytes");
  expect(headers.get("x-request-id")).toMatch(/^req_/);
  expect(headers.get("set-cookie")).toBeNull();
});

test("[contract 9] an image is shown inline, an SVG is not", async () => {
  const disposition = async (mimeType: string) => {
    const uploaded = await world.upload("x", world.alice, { mimeType });
    return (await fetch(await world.downloadUrl(uploaded.id))).headers.get("content-disposition")?.split(";")[0];
  };
  expect(await disposition("image/png")).toBe("inline");
  expect(await disposition("image/svg+xml")).toBe("attachment");
});

test("[contract 9] a range is answered with 206 and content-range, an unsatisfiable one with 416", async () => {
  for (const [range, body, place] of [
    ["bytes=0-0", "0", "0-0"],
    ["bytes=2-4", "234", "2-4"],
    ["bytes=7-", "789", "7-9"],
    ["bytes=-3", "789", "7-9"],
    ["bytes=-100", content, "0-9"],
    ["bytes=0-9", content, "0-9"],
    ["bytes=8-100", "89", "8-9"],
  ] as const) {
    const response = await get({ range });
    expect([range, response.status, await response.text()]).toEqual([range, 206, body]);
    expect(response.headers.get("content-range")).toBe(`bytes ${place}/10`);
    expect(response.headers.get("content-length")).toBe(String(body.length));
    expect(response.headers.get("content-disposition")).toStartWith("attachment");
  }
  for (const range of ["bytes=10-", "bytes=10-20", "bytes=-0"]) {
    const response = await get({ range });
    expect([range, response.status, (await response.json()).code]).toEqual([range, 416, "SVC_RANGE_NOT_SATISFIABLE"]);
    expect(response.headers.get("content-range")).toBe("bytes */10");
  }
  for (const range of ["bytes=5-2", "bytes=0-1,4-5", "lines=1-2", "nonsense", "bytes=-"]) {
    const response = await get({ range });
    expect([range, response.status, await response.text()]).toEqual([range, 200, content]);
    expect(response.headers.get("content-range")).toBeNull();
  }
});

test("[contract 9] if-range combines parts of one version only, and if-none-match avoids the transfer", async () => {
  const etag = (await get()).headers.get("etag") ?? "";
  expect(etag).toMatch(/^"[0-9a-f]{64}"$/);
  const same = await get({ range: "bytes=1-2", "if-range": etag });
  expect([same.status, await same.text()]).toEqual([206, "12"]);
  for (const other of ['"other"', "Sun, 01 Mar 2026 12:00:00 GMT"]) {
    const whole = await get({ range: "bytes=1-2", "if-range": other });
    expect([whole.status, await whole.text(), whole.headers.get("content-range")]).toEqual([200, content, null]);
  }
  const cached = await get({ "if-none-match": `"x", ${etag}` });
  expect([cached.status, await cached.text()]).toEqual([304, ""]);
  expect((await get({ "if-none-match": '"x"' })).status).toBe(200);
});

test("[contract 9] HEAD answers as GET does, without the bytes", async () => {
  const head = await get({}, "HEAD");
  expect([head.status, await head.text()]).toEqual([200, ""]);
  for (const name of ["content-type", "content-length", "content-disposition", "etag", "x-content-type-options"]) {
    expect([name, head.headers.get(name)]).toEqual([name, (await get()).headers.get(name)]);
  }
  expect((await fetch(url.replace("signature=", "signature=0"), { method: "HEAD" })).status).toBe(403);
  const ranged = await get({ range: "bytes=1-2" }, "HEAD");
  expect([ranged.status, ranged.headers.get("content-length")]).toEqual([200, "10"]);
});

test("[contract 9] a changed or expired download address is 403", async () => {
  const changed = new URL(url);
  for (const [name, value] of [
    ["size", "11"],
    ["type", "image/png"],
    ["expires", "9999999999999"],
    ["signature", "f".repeat(64)],
  ] as const) {
    const variant = new URL(changed);
    variant.searchParams.set(name, value);
    expect([name, (await fetch(variant)).status]).toEqual([name, 403]);
  }
  const upload = await world.request(5);
  expect((await fetch(upload.uploadUrl)).status).toBe(403);
  expect((await fetch(url, { method: "PUT", body: "hello" })).status).toBe(403);

  world.clock.advance(899_000);
  const last = await get();
  expect([last.status, last.headers.get("cache-control")]).toEqual([200, "private, max-age=1"]);
  world.clock.advance(1000);
  const late = await get();
  expect([late.status, (await late.json()).code]).toEqual([403, "SVC_PERMISSION_DENIED"]);
  world.clock.advance(-900_000);
});

test("[contract 1] pages of other origins can read a download unless the project does not allow the origin", async () => {
  const response = await get({ origin: "https://app.example.com" });
  expect(response.headers.get("access-control-allow-origin")).toBe("https://app.example.com");
  expect(response.headers.get("access-control-expose-headers")).toContain("content-range");
  expect(response.headers.get("cross-origin-resource-policy")).toBe("cross-origin");
});

test("a signed address never reaches the log", async () => {
  const lines: string[] = [];
  const loud = await attachmentWorld(
    { LOG_LEVEL: "trace", LOG_FORMAT: "json" },
    { logWrite: (line) => lines.push(line) },
  );
  const uploaded = await loud.upload("hello");
  const address = await loud.downloadUrl(uploaded.id);
  await fetch(address);
  await fetch(address.replace("signature=", "signature=0"));
  await loud.close();
  expect(lines.length).toBeGreaterThan(3);
  expect(lines.filter((line) => line.includes("signature"))).toEqual([]);
});

test("[contract 9] a disk that cannot store answers 503, and the server continues", async () => {
  const broken = await attachmentWorld();
  writeFileSync(join(broken.dataDir, "attachments"), "in the way");
  const upload = await broken.request(5);
  const refused = await broken.put(upload, "hello");
  expect([refused.status, refused.body.code]).toEqual([503, "SVC_STORAGE_UNAVAILABLE"]);
  expect(JSON.stringify(refused.body)).not.toContain(broken.dataDir);
  rmSync(join(broken.dataDir, "attachments"));
  expect((await broken.put(upload, "hello")).status).toBe(200);
  await broken.close();
});

test("[contract 9] a file that is missing on disk answers 404", async () => {
  const uploaded = await world.upload("soon gone");
  const address = await world.downloadUrl(uploaded.id);
  rmSync(join(world.dataDir, "attachments", "objects"), { recursive: true });
  const response = await fetch(address);
  expect([response.status, (await response.json()).code]).toEqual([404, "SVC_ATTACHMENT_NOT_FOUND"]);
});
