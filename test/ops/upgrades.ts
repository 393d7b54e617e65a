import { afterAll, beforeAll, expect, test } from "bun:test";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readMigrations } from "../../src/kernel/db/migrate.ts";
import { closeRuntime, createRuntime } from "../../src/kernel/runtime.ts";
import { testConfig } from "../harness/test-config.ts";
import { type Counts, countRows, makePreviousDatabase } from "./previous-schema.ts";
import { type Body, prepareData, type Served, served } from "./served.ts";

/** Tests upgrades from the schemas after `counts` migrations, and that the server upgrades the previous one by itself. */
export function testUpgrades(counts: (migrations: number) => number[]): void {
  const work = mkdtempSync(join(tmpdir(), "stoa-upgrade-"));
  const filled = join(work, "filled");
  const migrations = readMigrations(join(import.meta.dir, "../../migrations"));
  let room: string;
  let attachment: string;
  let rooms: Body;
  let server: Served | undefined;

  beforeAll(async () => {
    await prepareData(filled);
    const today = await served(filled);
    room = await today.conversation("history", "alice", "bob");
    const { client } = await today.member("alice", room);
    for (const text of ["one", "two", "three"]) {
      await client.ask("message.send", { room, text, clientMessageId: text });
    }
    attachment = await today.upload(room, "bob", "kept");
    const made = await today.call("POST", "/v1/rooms", { name: "lobby" });
    await today.call("POST", `/v1/rooms/${made.body.id}/rtc-tokens`, { participantIdentity: "alice" });
    await today.call("POST", "/v1/live-streams", { title: "launch", hosts: [{ identity: "alice" }] });
    rooms = (await today.call("GET", "/v1/rooms")).body;
    expect(await today.stop()).toBe(0);
  }, 60_000);

  afterAll(async () => {
    await server?.stop();
    rmSync(work, { recursive: true, force: true });
  });

  /** The data directory as the version with the first `count` migrations would have left it. */
  function previousData(name: string, count: number): { dataDir: string; counts: Counts } {
    const dataDir = join(work, name);
    mkdirSync(dataDir);
    for (const kept of ["secret", "sfu-secret", "attachments"]) {
      cpSync(join(filled, kept), join(dataDir, kept), { recursive: true });
    }
    const counts = makePreviousDatabase(join(filled, "stoa.db"), join(dataDir, "stoa.db"), migrations.slice(0, count));
    return { dataDir, counts };
  }

  test("[11] an upgrade from an earlier schema keeps every row and a copy of the old database", async () => {
    for (const count of counts(migrations.length)) {
      const { dataDir, counts: rows } = previousData(`after-${count}`, count);
      const runtime = createRuntime(testConfig({ DATA_DIR: dataDir }));
      expect(runtime.db.$client.query("PRAGMA foreign_key_check").all()).toEqual([]);
      expect(runtime.db.$client.query("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
      await closeRuntime(runtime);

      expect(countRows(join(dataDir, "stoa.db"), Object.keys(rows))).toEqual(rows);
      const [copy = "none"] = readdirSync(dataDir).filter((name) => name.startsWith("before-migration-"));
      expect(countRows(join(dataDir, copy), Object.keys(rows))).toEqual(rows);
    }
  }, 180_000);

  test("[11] the server upgrades the previous schema by itself and serves its data", async () => {
    const { dataDir, counts } = previousData("previous", migrations.length - 1);
    expect(counts).toMatchObject({ messages: 4, attachments: 1, rooms: expect.any(Number), api_keys: 1 });
    cpSync(`${filled}.key`, `${dataDir}.key`);
    server = await served(dataDir);
    expect(await server.texts(room, "alice")).toEqual(["one", "two", "three", null]);
    expect(await server.download(attachment, "alice")).toBe("kept");
    expect((await server.call("GET", "/v1/rooms")).body).toEqual(rooms);
    const { client } = await server.member("bob", room);
    expect(await client.ask("message.send", { room, text: "four", clientMessageId: "four" })).toMatchObject({
      type: "ack",
      message: { seq: expect.any(Number) },
    });
  }, 60_000);
}
