/**
 * `first-build/stoa.db.gz` is the database of a server that ran 0.1.0 as first built: with an account, a project, a room, a
 * conversation, a live stream, one credential of each kind, and webhook deliveries that are still to be made.
 */
import { Database } from "bun:sqlite";
import { afterAll, beforeAll, expect, test } from "bun:test";
import { createHmac } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { assetFolder } from "../../../src/kernel/assets.ts";
import { readMigrations } from "../../../src/kernel/db/migrate.ts";
import { SignalingClient } from "../../../src/rtc-client/signaling-client.ts";
import { type RunningServer, start } from "../../../src/server.ts";
import { createApi } from "../../harness/api.ts";
import { testConfig } from "../../harness/test-config.ts";
import credentials from "./first-build/credentials.json" with { type: "json" };

const FIRST_MIGRATIONS = 13;
const dataDir = mkdtempSync(join(tmpdir(), "stoa-first-build-"));
const delivered: { headers: Headers; body: string }[] = [];
let endpoint: Bun.Server<undefined>;
let server: RunningServer;

beforeAll(async () => {
  endpoint = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      delivered.push({ headers: request.headers, body: await request.text() });
      return new Response("ok");
    },
  });
  const packed = await Bun.file(join(import.meta.dir, "first-build/stoa.db.gz")).bytes();
  const path = join(dataDir, "stoa.db");
  writeFileSync(path, Bun.gunzipSync(packed), { mode: 0o600 });
  const db = new Database(path);
  expect(db.query("SELECT count(*) AS count FROM schema_migrations").get()).toEqual({ count: FIRST_MIGRATIONS });
  db.run("UPDATE webhook_endpoints SET url = ?", [`http://127.0.0.1:${endpoint.port}/`]);
  db.close();
  const startedAt = Date.now();
  // The upgrade takes place half a minute after the first build stopped.
  const now = () => credentials.at + 30_000 + Date.now() - startedAt;
  const config = testConfig({ DATA_DIR: dataDir, STOA_SECRET: credentials.masterSecret, WEBHOOK_ALLOW_PRIVATE: true });
  server = await start(config, { now });
}, 60_000);
afterAll(async () => {
  await server.stop("test", 2_000);
  await endpoint.stop(true);
  rmSync(dataDir, { recursive: true, force: true });
});

const call = (method: string, path: string, token: string, body?: object) =>
  createApi(server.url, token).call(method, path, body);

test("every migration is applied, and the database from before is kept", () => {
  const db = new Database(join(dataDir, "stoa.db"), { readonly: true });
  const applied = db.query<{ name: string }, []>("SELECT name FROM schema_migrations ORDER BY name").all();
  db.close();
  expect(applied.map(({ name }) => name)).toEqual(readMigrations(assetFolder("migrations")).map(({ name }) => name));
  expect(readdirSync(dataDir).filter((name) => name.startsWith("before-migration-"))).toHaveLength(1);
});

test("an API key reads the project, its rooms and its live stream", async () => {
  const { apiKey, projectId, roomId, streamId } = credentials;
  expect((await call("GET", "/v1/project", apiKey)).body).toMatchObject({ id: projectId, name: "first" });
  expect((await call("GET", `/v1/rooms/${roomId}`, apiKey)).body).toMatchObject({ name: "lobby" });
  expect((await call("GET", `/v1/live-streams/${streamId}`, apiKey)).body).toMatchObject({ title: "first stream" });
});

test("a chat token reads the history, finds it by search and sends", async () => {
  const { chatToken } = credentials;
  const messages = await call("GET", "/v1/chat/conversations/team/messages", chatToken);
  const texts = (messages.body.data as { text: string }[]).map(({ text }) => text).sort();
  expect(texts).toEqual([...[1, 2, 3].map((n) => `message ${n} of the first build`), "told by webhook"]);
  const sent = await call("POST", "/v1/chat/conversations/team/messages", chatToken, { text: "after the upgrade" });
  expect(sent).toMatchObject({ status: 201, body: { seq: expect.any(Number) } });
  const found = await call("GET", "/v1/chat/conversations/team/search?q=webhook", chatToken);
  expect(found).toMatchObject({ status: 200, body: [{ text: "told by webhook" }] });
});

test("an RTC token joins its room", async () => {
  const client = new SignalingClient({ url: server.url, token: credentials.rtcToken });
  expect(await client.join()).toMatchObject({ room: { id: credentials.roomId, name: "lobby" } });
  client.close();
});

test("a session, its refresh token and the password sign in", async () => {
  const { sessionToken, refreshCookie, password, projectId } = credentials;
  expect((await call("GET", "/v1/projects", sessionToken)).text).toContain(projectId);
  const headers = { origin: server.url, cookie: refreshCookie, "content-type": "application/json" };
  const refreshed = await fetch(`${server.url}/v1/auth/refresh`, { method: "POST", headers, body: "{}" });
  expect(refreshed.status).toBe(200);
  const body = JSON.stringify({ email: "owner@example.com", password });
  const signedIn = await fetch(`${server.url}/v1/auth/login`, { method: "POST", headers, body });
  expect(signedIn.status).toBe(200);
});

test("pending webhooks are delivered with the endpoint's secret", async () => {
  const isOld = ({ body }: { body: string }) => body.includes("told by webhook");
  while (!delivered.some(isOld)) await Bun.sleep(20);
  const { headers, body } = delivered.find(isOld) as (typeof delivered)[number];
  const key = Buffer.from(credentials.webhookSecret.replace("whsec_", ""), "base64");
  const signed = `${headers.get("webhook-id")}.${headers.get("webhook-timestamp")}.${body}`;
  const signature = createHmac("sha256", key).update(signed).digest("base64");
  expect(headers.get("webhook-signature")).toBe(`v1,${signature}`);
});
