import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type RealServer, realServer } from "../../harness/real-server.ts";

const MIB = 1024 * 1024;
const RESERVE = 24 * MIB;
const disk = mkdtempSync(join(tmpdir(), "stoa-full-disk-"));
const filler = join(disk, "filler");
let server: RealServer;

async function run(...command: string[]): Promise<void> {
  const { exitCode, stderr } = Bun.spawnSync(command);
  if (exitCode !== 0) throw new Error(`${command.join(" ")}: ${stderr.toString()}`);
}

beforeAll(async () => {
  await run("mount", "-t", "tmpfs", "-o", "size=64m", "stoa-full-disk", disk);
  server = await realServer({ DATA_DIR: join(disk, "data"), STORAGE_MIN_FREE_BYTES: RESERVE });
  const { email, password } = account;
  const passwordHash = await Bun.password.hash(password);
  await server.runtime.write((unit) =>
    server.services.users.create(unit, { email, passwordHash, emailVerified: true, isOperator: false }),
  );
});
afterAll(async () => {
  await server.close();
  await run("umount", "--lazy", disk);
  rmSync(disk, { recursive: true, force: true });
});

/** Writes until the disk takes no more. */
async function fill(): Promise<void> {
  const file = await open(filler, "w");
  for (const size of [MIB, 4096]) {
    const block = Buffer.alloc(size, 1);
    try {
      for (;;) if ((await file.write(block)).bytesWritten < size) break;
    } catch {
      // Full by blocks of this size.
    }
  }
  await file.close();
}

const attach = (room: string, size: number) =>
  server.call("POST", `/v1/chat/conversations/${room}/attachments`, {
    filename: "file.bin",
    mimeType: "application/octet-stream",
    size,
    uploaderId: "ann",
  });

const account = { email: "ann@example.com", password: "a password of ann's" };
const signIn = async () =>
  (
    await fetch(`${server.url}/v1/auth/login`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(account),
    })
  ).status;

const ready = async () => (await fetch(`${server.url}/readyz`)).status;

test("[9] attachments stop at the reserve; sends, deletions and new credentials continue; a disk that is full is not ready", async () => {
  const { body: room } = await server.call("POST", "/v1/chat/conversations", { name: "full" });
  const first = await attach(String(room.id), 10 * MIB);
  expect(first.status).toBe(201);
  const upload = await fetch(String(first.body.uploadUrl), {
    method: "PUT",
    headers: { "content-type": "application/octet-stream" },
    body: new Uint8Array(10 * MIB),
  });
  expect(upload.status).toBe(200);

  // Two that fit one by one, but not together with the reserve: the second to arrive finds its room taken.
  const declared = await attach(String(room.id), 12 * MIB);
  expect(declared.status).toBe(201);
  const filling = await open(filler, "w");
  await filling.write(Buffer.alloc(20 * MIB));
  await filling.close();
  const late = await fetch(String(declared.body.uploadUrl), {
    method: "PUT",
    headers: { "content-type": "application/octet-stream" },
    body: new Uint8Array(12 * MIB),
  });
  expect([late.status, (await late.json()).code]).toEqual([507, "SVC_STORAGE_FULL"]);
  const refused = await attach(String(room.id), 12 * MIB);
  expect([refused.status, refused.body.code, refused.body.legacyCode]).toEqual([
    507,
    "SVC_STORAGE_FULL",
    "UNAVAILABLE",
  ]);

  // Everything else continues.
  const sent = await server.call("POST", `/v1/chat/conversations/${room.id}/messages`, { text: "still here" });
  expect(sent.status).toBe(201);
  expect((await server.call("POST", "/v1/chat/tokens", { userId: "ann" })).status).toBe(201);
  expect(await signIn()).toBe(200);
  expect((await server.call("DELETE", `/v1/chat/messages/${sent.body.id}`)).status).toBe(200);
  expect(await ready()).toBe(200);

  await fill();
  await Bun.sleep(2_100); // Readiness looks at the disk every two seconds.
  expect(await ready()).toBe(503);
  const { body: diagnostics } = await server.call("GET", "/v1/diagnostics");
  expect(diagnostics.status).toBe("down");

  rmSync(filler);
  await Bun.sleep(2_100);
  await ready();
  await Bun.sleep(100);
  expect(await ready()).toBe(200);
  expect((await server.call("POST", "/v1/rooms", { name: "after" })).status).toBe(201);
}, 60_000);
