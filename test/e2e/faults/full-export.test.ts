import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type RealServer, realServer } from "../../harness/real-server.ts";

const dataDir = mkdtempSync(join(tmpdir(), "stoa-full-export-"));
/** Exports are on a small disk of their own, so that the database keeps working while it is full. */
const exports = join(dataDir, "exports");
let server: RealServer;

beforeAll(async () => {
  mkdirSync(exports);
  Bun.spawnSync(["mount", "-t", "tmpfs", "-o", "size=64k", "stoa-full-export", exports]);
  server = await realServer({ DATA_DIR: dataDir, STORAGE_MIN_FREE_BYTES: 0 });
});
afterAll(async () => {
  await server.close();
  Bun.spawnSync(["umount", "--lazy", exports]);
  rmSync(dataDir, { recursive: true, force: true });
});

/** How the export of this user ended. */
async function exported(userId: string): Promise<unknown> {
  const { body } = await server.call("POST", `/v1/people/${userId}/exports`);
  for (;;) {
    const { status } = (await server.call("GET", `/v1/people/${userId}/exports/${body.id}`)).body;
    if (status !== "RUNNING") return status;
    await Bun.sleep(20);
  }
}

test("[5] an export that its disk has no room for fails, and those after it are made", async () => {
  const members = [{ userId: "talker" }, { userId: "quiet" }];
  const { body: room } = await server.call("POST", "/v1/chat/conversations", { name: "long", members });
  for (let i = 0; i < 40; i++) {
    const message = { senderId: "talker", text: "a".repeat(3_900) };
    expect((await server.call("POST", `/v1/chat/conversations/${room.id}/messages`, message)).status).toBe(201);
  }
  expect(await exported("talker")).toBe("FAILED");
  expect(await exported("quiet")).toBe("READY");
});
