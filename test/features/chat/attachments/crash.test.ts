// suite: all
import { afterAll, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { attachmentChild, type Child } from "./attachment-child.ts";
import { type Body, filesBelow } from "./attachment-world.ts";
import { answered, rawRequest, statusOf } from "./raw-upload.ts";

const dataDir = mkdtempSync(join(tmpdir(), "stoa-crash-"));
afterAll(() => rmSync(dataDir, { recursive: true, force: true }));
const incoming = join(dataDir, "attachments", "incoming");
const objects = join(dataDir, "attachments", "objects");

async function newRoom(child: Child): Promise<string> {
  return (await child.ask("POST", "/v1/chat/conversations", { name: `r${Math.random()}` })).body.id;
}
async function request(child: Child, room: string, size: number): Promise<Body> {
  const input = { filename: "f", mimeType: "text/plain", size };
  return (await child.ask("POST", `/v1/chat/conversations/${room}/attachments`, input)).body;
}
const complete = (child: Child, key: string, id: string) =>
  child.ask("POST", `/v1/chat/attachments/${id}/complete`, undefined, key);

test("[contract 9] after a kill during uploads, acknowledged ones are complete and the others leave no file", async () => {
  const bodies = Array.from({ length: 6 }, (_, i) => Buffer.alloc(300_000 + i * 150_000, 97 + i));
  let acknowledgedTotal = 0;
  for (let round = 0; round < 4; round += 1) {
    const child = await attachmentChild(dataDir);
    const { key } = child;
    const room = await newRoom(child);
    const uploads = await Promise.all(bodies.map((body) => request(child, room, body.length)));
    const acknowledged = new Set<string>();
    const sending = uploads.map(async (upload, i) => {
      const raw = await rawRequest(upload.uploadUrl, [`content-length: ${bodies[i]?.length}`]);
      const body = bodies[i] ?? Buffer.alloc(0);
      for (let sent = 0; sent < body.length; sent += 65_536) {
        await raw.send(body.subarray(sent, sent + 65_536));
        // The first two are sent at once; the others trickle, and are cut off wherever they are.
        if (i > 1) await Bun.sleep(3);
      }
      if (statusOf(await raw.until(answered)) === 200) acknowledged.add(upload.id);
    });
    while (acknowledged.size === 0) await Bun.sleep(1);
    await Bun.sleep(round * 5);
    await child.kill();
    await Promise.all(sending);

    const next = await attachmentChild(dataDir);
    expect(filesBelow(incoming)).toEqual([]);
    for (const [i, upload] of uploads.entries()) {
      const { status, body } = await complete(next, key, upload.id);
      if (acknowledged.has(upload.id)) expect(status).toBe(200);
      expect([200, 409]).toContain(status);
      if (status === 200) {
        acknowledgedTotal += 1;
        expect(body.sha256).toBe(
          createHash("sha256")
            .update(bodies[i] ?? "")
            .digest("hex"),
        );
      }
    }
    await next.kill();
  }
  expect(filesBelow(objects)).toHaveLength(acknowledgedTotal);
}, 60_000);

test("[contract 9] after a kill between commit and rename, the next start finishes the upload", async () => {
  const child = await attachmentChild(dataDir);
  const before = new Set(filesBelow(objects));
  const upload = await request(child, await newRoom(child), 5);
  expect((await fetch(upload.uploadUrl, { method: "PUT", body: "hello" })).status).toBe(200);
  const name = filesBelow(objects).find((file) => !before.has(file)) ?? "";
  await child.kill();
  renameSync(join(objects, name.slice(-2), name), join(incoming, name));
  writeFileSync(join(incoming, Bun.randomUUIDv7()), "left by a crash");

  const next = await attachmentChild(dataDir);
  expect(filesBelow(incoming)).toEqual([]);
  expect((await complete(next, child.key, upload.id)).body).toMatchObject({ status: "UPLOADED", size: 5 });
  await next.kill();
}, 30_000);

test("[8] memory does not grow with the file size, for 160 MiB up and down", async () => {
  const size = 160 * 1_048_576;
  const child = await attachmentChild(dataDir, size);
  const room = await newRoom(child);
  const block = Buffer.alloc(65_536, 5);
  const hash = createHash("sha256");
  const send = async (bytes: number) => {
    const upload = await request(child, room, bytes);
    const raw = await rawRequest(upload.uploadUrl, [`content-length: ${bytes}`]);
    for (let sent = 0; sent < bytes; sent += block.length) {
      await raw.send(block);
      if (bytes === size) hash.update(block);
    }
    expect(statusOf(await raw.until(answered))).toBe(200);
    raw.destroy();
    const { body } = await complete(child, child.key, upload.id);
    const { url } = (await child.ask("GET", `/v1/chat/attachments/${upload.id}/download-url`)).body;
    let received = 0;
    for await (const chunk of (await fetch(url)).body ?? []) received += chunk.byteLength;
    expect(received).toBe(bytes);
    return body.sha256;
  };
  const peakBytes = () =>
    Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"))?.[1]) * 1024;

  // One small file first, so that code and buffers are loaded.
  await send(8 * 1_048_576);
  const before = peakBytes();
  expect(await send(size)).toBe(hash.digest("hex"));
  const growth = peakBytes() - before;
  await child.kill();
  expect(growth).toBeLessThan(64 * 1_048_576);
}, 60_000);
