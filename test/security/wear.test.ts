import { afterAll, expect, spyOn, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { type AnyElysia, Elysia } from "elysia";
import { ExchangeBroken, finishExchange } from "../../src/kernel/data-directory/data-exchange.ts";
import { voidTokensBefore } from "../../src/kernel/data-directory/installation.ts";
import { referenceRoutes } from "../../src/kernel/http/reference/reference.ts";
import { closeRuntime, createRuntime } from "../../src/kernel/runtime.ts";
import { testServer } from "../harness/server.ts";
import { testConfig } from "../harness/test-config.ts";

const server = testServer();
const folders: string[] = [];
afterAll(async () => {
  await server.close();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});
const folder = () => {
  const made = mkdtempSync(join(tmpdir(), "stoa-wear-"));
  folders.push(made);
  return made;
};

const { key } = await server.project();
const call = (method: string, path: string, body?: object) => server.call(method, path, { key, body });
const { body: room } = await call("POST", "/v1/chat/conversations", { name: "wear" });
const at = `/v1/chat/conversations/${room.id}`;
const send = (body: object) => call("POST", `${at}/messages`, body);

/** Every page of a list, as long as `link` leads on. */
async function pages(path: string): Promise<{ rows: { seq: number }[]; bytes: number }[]> {
  const found = [];
  for (let next: string | undefined = path; next !== undefined; ) {
    const reply = await call("GET", next);
    expect(reply.status).toBe(200);
    found.push({ rows: JSON.parse(reply.text), bytes: Buffer.byteLength(reply.text) });
    next = /<([^>]+)>; rel="next"/.exec(reply.headers.get("link") ?? "")?.[1];
  }
  return found;
}

test("[8] a thread of long replies is returned in pages of at most 1 MiB, complete and in order", async () => {
  const { body: root } = await send({ text: "root" });
  const text = "界".repeat(4000);
  for (let n = 0; n < 500; n++) await send({ text, replyTo: root.id });
  const found = await pages(`/v1/chat/messages/${root.id}/thread`);
  expect(found.length).toBeGreaterThan(1);
  for (const { bytes } of found) expect(bytes).toBeLessThanOrEqual(1024 * 1024 + 2);
  const seqs = found.flatMap(({ rows }) => rows.map(({ seq }) => seq));
  expect(seqs).toHaveLength(501);
  expect(seqs).toEqual([...new Set(seqs)].sort((a, b) => a - b));
});

test("[8] a thread of short replies is returned in pages of 1,000", async () => {
  const { body: root } = await send({ text: "root" });
  for (let n = 0; n < 1100; n++) await send({ text: "short", replyTo: root.id });
  const found = await pages(`/v1/chat/messages/${root.id}/thread`);
  expect(found.map(({ rows }) => rows.length)).toEqual([1000, 101]);
});

test("[8] messages with characters that decompose into sentences are indexed in several units of work", async () => {
  const { services, runtime } = server;
  await services.search.catchUp();
  for (let n = 0; n < 20; n++) await send({ text: "\uFDFA".repeat(4000) });
  const db = runtime.db.$client;
  const waiting = () => db.query<{ n: number }, []>("SELECT count(*) AS n FROM search_pending").get()?.n ?? 0;
  expect(waiting()).toBe(20);
  // One unit of work takes only some of them, so no send waits for the rest.
  const following = services.search.catchUp();
  await send({ text: "in between" });
  expect(waiting()).toBeGreaterThan(10);
  await following;
  const found = await call("GET", `${at}/search?q=between`);
  expect(JSON.parse(found.text)).toHaveLength(1);
});

test("[8] many idempotency keys evict only the stored responses of their own credential", async () => {
  const other = await server.project();
  const mint = (credential: string, idempotencyKey: string) =>
    server.call("POST", "/v1/chat/tokens", {
      key: credential,
      body: { userId: "ann" },
      headers: { "idempotency-key": idempotencyKey },
    });
  const honest = await mint(other.key, "retry");
  const first = await mint(key, "key-0");
  for (let n = 1; n <= 1000; n++) await mint(key, `key-${n}`);
  expect((await mint(other.key, "retry")).body.tokenId).toBe(honest.body.tokenId);
  expect((await mint(key, "key-1000")).headers.get("idempotent-replayed")).toBe("true");
  expect((await mint(key, "key-0")).body.tokenId).not.toBe(first.body.tokenId);
});

test("[2] tokens from before a restore are invalid, because the backup does not know which were revoked later", async () => {
  const one = testServer();
  const project = await one.project();
  const { body: old } = await one.call("POST", "/v1/chat/tokens", { key: project.key, body: { userId: "ann" } });
  await one.runtime.write((unit) => voidTokensBefore(unit, one.runtime.db, one.clock.now() + 1_000));
  one.clock.advance(2_000);
  // The verifier of the server that starts on the restored data.
  const { createChatTokenVerifier } = await import("../../src/features/chat/tokens/token.verify.ts");
  const { chatTokenStore } = await import("../../src/features/chat/tokens/token.store.ts");
  const { verify } = createChatTokenVerifier(one.runtime, chatTokenStore(one.runtime.db), () => false);
  expect(verify(String(old.token))).rejects.toMatchObject({ code: "SVC_TOKEN_REVOKED" });
  const { body: fresh } = await one.call("POST", "/v1/chat/tokens", { key: project.key, body: { userId: "ann" } });
  expect(await verify(String(fresh.token))).toMatchObject({ userId: "ann" });
  await one.close();
});

test("[11] an interrupted restore whose folder is missing does not start with an empty database", () => {
  for (const step of ["set aside", "put in place"]) {
    const dataDir = folder();
    writeFileSync(
      join(dataDir, "restore.json"),
      JSON.stringify({ step, from: "restoring-x", aside: "before-restore-x" }),
    );
    if (step === "set aside") writeFileSync(join(dataDir, "stoa.db"), "the data of before");
    else {
      mkdirSync(join(dataDir, "before-restore-x"));
      writeFileSync(join(dataDir, "before-restore-x", "stoa.db"), "the data of before");
    }
    expect(() => finishExchange(dataDir)).toThrow(ExchangeBroken);
    expect(() => finishExchange(dataDir)).toThrow(/restoring-x is gone.*restore\.json/);
    // Nothing was moved or made, and the server refuses in the same way.
    expect(() => createRuntime(testConfig({ DATA_DIR: dataDir }))).toThrow(ExchangeBroken);
    expect(existsSync(join(dataDir, "stoa.db"))).toBe(step === "set aside");
  }
});

test("[11] the last two copies from before a migration are kept", async () => {
  const dataDir = folder();
  const config = testConfig({ DATA_DIR: dataDir });
  await closeRuntime(createRuntime(config));
  for (const at of [1, 20, 300]) writeFileSync(join(dataDir, `before-migration-${at}.db`), "");
  const { openDatabase, closeDatabase } = await import("../../src/kernel/db/open.ts");
  const db = openDatabase(join(dataDir, "stoa.db"));
  db.$client.run("DROP TABLE storage_usage");
  for (const name of ["attachments_take_room", "attachments_expire", "attachments_free_room"]) {
    db.$client.run(`DROP TRIGGER IF EXISTS ${name}`);
  }
  db.$client.run("DELETE FROM schema_migrations WHERE name LIKE '0062_storage%'");
  closeDatabase(db);
  await closeRuntime(createRuntime(config, { now: () => 4_000 }));
  const copies = readdirSync(dataDir).filter((name) => name.startsWith("before-migration-"));
  expect(copies.sort()).toEqual(["before-migration-300.db", "before-migration-4000.db"]);
});

test("[10] the viewer of the API reference is decompressed once for all clients without gzip", async () => {
  const built = folder();
  writeFileSync(join(built, "api-reference.js.gz"), gzipSync("x".repeat(100_000)));
  const options = { folder: built, version: "0", schemas: {} };
  const app: AnyElysia = new Elysia().use(referenceRoutes({ ...options, app: () => app }));
  const unpacked = spyOn(Bun, "gunzipSync");
  try {
    for (let n = 0; n < 20; n++) {
      const packed = await app.handle(
        new Request("http://localhost/docs/viewer.js", { headers: { "accept-encoding": "gzip" } }),
      );
      expect(packed.headers.get("content-encoding")).toBe("gzip");
    }
    expect(unpacked).toHaveBeenCalledTimes(0);
    for (let n = 0; n < 20; n++) {
      const plain = await app.handle(new Request("http://localhost/docs/viewer.js"));
      expect((await plain.text()).length).toBe(100_000);
    }
    expect(unpacked).toHaveBeenCalledTimes(1);
  } finally {
    unpacked.mockRestore();
  }
});
