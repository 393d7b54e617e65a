import { afterAll, expect, test } from "bun:test";
import { hookedEndpoint } from "../features/webhooks/hooked-project.ts";
import { failing } from "../features/webhooks/receiver.ts";
import { testServer } from "../harness/server.ts";

/** Limits of spec §8 whose default is tested with their feature: each obeys its variable. */
const server = testServer({
  CHAT_MAX_HISTORY_PAGE_SIZE: 3,
  RTC_TOKEN_DEFAULT_TTL_SECONDS: 31,
  SFU_HEARTBEAT_TIMEOUT_SECONDS: 5,
  STORAGE_DOWNLOAD_URL_TTL_SECONDS: 7,
  WEBHOOK_BACKOFF_BASE_MS: 100,
  WEBHOOK_MAX_ATTEMPTS: 2,
  WEBHOOK_TIMEOUT_MS: 150,
  WEBHOOK_DISABLE_AFTER_FAILURES: 3,
  WEBHOOK_DISABLE_AFTER_SECONDS: 0,
});
afterAll(server.close);
const { key } = await server.project();
const post = async (path: string, body: object = {}) => (await server.call("POST", path, { key, body })).body;

test("[8] CHAT_MAX_HISTORY_PAGE_SIZE is the largest page of history", async () => {
  await post("/v1/chat/conversations", { name: "history" });
  for (let n = 0; n < 5; n++) await post("/v1/chat/conversations/history/messages", { text: String(n) });
  const read = (query: string) => server.call("GET", `/v1/chat/conversations/history/messages${query}`, { key });
  expect((await read("?limit=3")).body.data).toHaveLength(3);
  expect((await read("")).body.data).toHaveLength(3);
  expect((await read("?limit=4")).status).toBe(400);
  expect((await read("?limit=0")).status).toBe(400);
});

test("[8] RTC_TOKEN_DEFAULT_TTL_SECONDS is the lifetime of a token whose request sets none", async () => {
  const { id } = await post("/v1/rooms", { name: "ttl" });
  const { expiresAt } = await post(`/v1/rooms/${id}/rtc-tokens`, { participantIdentity: "ada" });
  expect(Date.parse(String(expiresAt)) - server.clock.now()).toBe(31_000);
});

test("[8] SFU_HEARTBEAT_TIMEOUT_SECONDS is the longest silence of a healthy node", async () => {
  const { token } = await server.session({ operator: true });
  const fields = { region: "eu", publicHost: "media.example.com", internalUrl: "http://10.0.0.5:7000" };
  await server.call("POST", "/v1/rtc/servers/register", { key: "test-sfu-secret", body: { name: "n1", ...fields } });
  const status = async () => (await server.call("GET", "/v1/rtc/servers/n1", { key: token })).body.status;
  server.clock.advance(4_999);
  expect(await status()).toBe("HEALTHY");
  server.clock.advance(2);
  expect(await status()).toBe("UNHEALTHY");
});

test("[8] STORAGE_DOWNLOAD_URL_TTL_SECONDS is the lifetime of a download URL", async () => {
  await post("/v1/chat/conversations", { name: "files" });
  const file = { filename: "a.txt", mimeType: "text/plain", size: 5 };
  const { id, uploadUrl, uploadHeaders } = await post("/v1/chat/conversations/files/attachments", file);
  const upload = { method: "PUT", body: "bytes", headers: uploadHeaders as Record<string, string> };
  expect((await server.app.handle(new Request(String(uploadUrl), upload))).status).toBe(200);
  await post(`/v1/chat/attachments/${id}/complete`);
  const { url } = (await server.call("GET", `/v1/chat/attachments/${id}/download-url`, { key })).body;
  const download = async () => (await server.app.handle(new Request(String(url)))).status;
  server.clock.advance(6_999);
  expect(await download()).toBe(200);
  server.clock.advance(1_001);
  expect(await download()).toBe(403);
});

test("[8] WEBHOOK_MAX_ATTEMPTS, WEBHOOK_TIMEOUT_MS and WEBHOOK_DISABLE_AFTER_FAILURES limit deliveries", async () => {
  const { runDue } = server.services.webhookDispatcher;
  const { announce, delivery, webhook, receiver } = await hookedEndpoint(server);
  const answer = Promise.withResolvers<Response>();
  receiver.reply = () => answer.promise;
  await announce();
  const done = runDue();
  await receiver.arrived(1);
  server.clock.advance(150);
  await done;
  expect(await delivery()).toMatchObject({ attemptCount: 1, status: "PENDING" });
  expect((await delivery())?.attempts[0]?.error).toBe("no HTTP response");
  answer.resolve(failing());

  receiver.reply = failing;
  server.clock.advance(1_000);
  await runDue();
  expect(await delivery()).toMatchObject({ attemptCount: 2, status: "FAILED" });
  expect((await webhook()).status).toBe("ACTIVE");

  await announce();
  await runDue();
  expect(await webhook()).toMatchObject({ status: "DISABLED", disabledReason: "consecutive_failures" });
  expect(receiver.received).toHaveLength(3);
  receiver.close();
});
