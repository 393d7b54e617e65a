import { afterAll, beforeAll, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Elysia } from "elysia";
import { Rendition } from "../../src/features/recordings/hls/rendition.ts";
import { webRoutes } from "../../src/kernel/http/serving/web-assets.ts";
import type { RecordedPart } from "../../src/protocol/media/recording.ts";
import { realServer } from "../harness/real-server.ts";

// Clients that request much and read nothing of it: what waits for them is shared, or stays on the disk.

const MEBIBYTE = 1024 * 1024;
const FILE_BYTES = 8 * MEBIBYTE;
const READERS = 150;
/** A copy for each would be more than a gigabyte; what the requests themselves take is a few hundred bytes. */
const MOST_GROWTH = 150 * MEBIBYTE;

const server = await realServer();
const folder = mkdtempSync(join(tmpdir(), "stoa-slow-readers-"));
afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Asks, waits for the first bytes of the answer, and takes no more. */
function stuck(url: string, headers: Record<string, string>): Promise<{ socket: Socket; head: string }> {
  const { hostname, port, pathname, search } = new URL(url);
  const socket = connect(Number(port), hostname);
  const lines = Object.entries({ host: `${hostname}:${port}`, ...headers }).map(([name, value]) => `${name}: ${value}`);
  socket.write(`GET ${pathname}${search} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`);
  return new Promise((begun, failed) => {
    socket.once("error", failed);
    socket.once("data", (bytes) => {
      socket.pause();
      begun({ socket, head: bytes.subarray(0, 512).toString("latin1") });
    });
  });
}

async function growthBy(
  url: string,
  headers: Record<string, string> = {},
): Promise<{ bytes: number; heads: string[] }> {
  // The first has the bytes loaded, once for all.
  const [first] = await Promise.all([stuck(url, headers)]);
  Bun.gc(true);
  const before = process.memoryUsage.rss();
  const readers = [first];
  for (let n = 0; n < READERS; n++) readers.push(await stuck(url, headers));
  const bytes = process.memoryUsage.rss() - before;
  // The server hears others all the while.
  expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
  for (const { socket } of readers) socket.destroy();
  return { bytes, heads: readers.map(({ head }) => head.slice(0, "HTTP/1.1 200".length)) };
}

let fileUrl = "";
beforeAll(async () => {
  const roomId = await server.room("recorded");
  const { body } = await server.call("POST", `/v1/rooms/${roomId}/recordings`, {});
  const fileId = crypto.randomUUID();
  const client = server.runtime.db.$client;
  const { id } = client
    .query<{ id: string }, [string]>("SELECT id FROM recordings WHERE public_id = ?")
    .get(String(body.id)) ?? { id: "" };
  await server.runtime.write(() => {
    client.run(
      `INSERT INTO recording_files VALUES (?1, ?2, ?2, 'ada', 'trk_1', 'video', 'camera', 'vp8', 'video/webm', 0, 1000, ?3, NULL, NULL, 'disk', NULL)`,
      [id, fileId, FILE_BYTES],
    );
  });
  const at = join(server.runtime.config.DATA_DIR, "recordings", id);
  mkdirSync(at, { recursive: true });
  writeFileSync(join(at, fileId), Buffer.alloc(FILE_BYTES, "x"));
  const address = await server.call("GET", `/v1/recordings/${body.id}/files/${fileId}/download-url`);
  fileUrl = String(address.body.url);
});

test.each([
  ["whole", {}, "200"],
  ["from the middle", { range: "bytes=100-" }, "206"],
  ["after it has changed", { range: "bytes=100-", "if-range": '"another"' }, "200"],
])("[18] a recording, requested %s, is not kept for clients that do not read it", async (_, headers, status) => {
  const { bytes, heads } = await growthBy(fileUrl, headers);
  expect(heads).toEqual(heads.map(() => `HTTP/1.1 ${status}`));
  expect(bytes).toBeLessThan(MOST_GROWTH);
});

test.each(["gzip", "identity"])("[8] a page or script, %s, is in memory once for all clients", async (encoding) => {
  mkdirSync(join(folder, "web"), { recursive: true });
  writeFileSync(join(folder, "web", "sdk.js"), randomBytes(FILE_BYTES));
  const app = new Elysia().use(webRoutes({ folder: join(folder, "web"), version: "1", bucketOrigins: [] }));
  app.listen({ hostname: "127.0.0.1", port: 0 });
  const { bytes, heads } = await growthBy(`http://127.0.0.1:${app.server?.port}/sdk.js`, {
    "accept-encoding": encoding,
  });
  await app.server?.stop(true);
  expect(heads).toEqual(heads.map(() => "HTTP/1.1 200"));
  expect(bytes).toBeLessThan(MOST_GROWTH);
});

test("[8] all readers of the API reference share one copy of it", async () => {
  const { bytes, heads } = await growthBy(`${server.url}/openapi.json`, { "accept-encoding": "identity" });
  expect(heads).toEqual(heads.map(() => "HTTP/1.1 200"));
  expect(bytes).toBeLessThan(MOST_GROWTH);
});

test("[18] all viewers of a live stream share one copy of each segment, partial segment and initialization segment", async () => {
  const rendition = new Rendition("video", join(folder, "video.m4s"), () => {});
  const part = (n: number): RecordedPart => ({
    fileId: "f",
    identity: "ann",
    trackId: "t",
    kind: "video",
    source: "camera",
    codecs: "avc1",
    width: 1,
    height: 1,
    head: null,
    data: Buffer.from(`part ${n} `).toString("base64"),
    atMs: n * 500,
    durationMs: 500,
    independent: true,
    beginsSegment: n % 4 === 0,
    endsSegment: n % 4 === 3,
  });
  rendition.add(part(0), new Uint8Array([1, 2, 3]));
  for (let n = 1; n < 8; n++) rendition.add(part(n), null);
  const [first, second] = await Promise.all([rendition.read(0), rendition.read(0)]);
  expect(await first?.text()).toBe("part 0 part 1 part 2 part 3 ");
  expect(second).toBe(first as Blob);
  const [one, another] = await Promise.all([rendition.read(1, 2), rendition.read(1, 2)]);
  expect(await one?.text()).toBe("part 6 ");
  expect(another).toBe(one as Blob);
  expect(rendition.head(0)).toBe(rendition.head(0) as Blob);
  expect(await rendition.head(0)?.bytes()).toEqual(new Uint8Array([1, 2, 3]));
  await rendition.settled();
});
