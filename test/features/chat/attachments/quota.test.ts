import { afterAll, expect, test } from "bun:test";
import { testServer } from "../../../harness/server.ts";

const server = testServer({ STORAGE_MAX_PROJECT_BYTES: 1000, STORAGE_MAX_USER_BYTES: 400, CHAT_SEND_RATE_LIMIT: 1000 });
afterAll(server.close);

async function conversation() {
  const { key } = await server.project();
  const { body } = await server.call("POST", "/v1/chat/conversations", { key, body: { name: "files" } });
  const at = `/v1/chat/conversations/${body.id}`;
  const call = (method: string, path: string, sent?: object) => server.call(method, path, { key, body: sent });
  const attach = (size: number, uploaderId?: string) =>
    call("POST", `${at}/attachments`, { filename: "f", mimeType: "text/plain", size, uploaderId });
  return { at, key, call, attach };
}

const used = () =>
  server.runtime.db.$client.query<{ bytes: number }, []>("SELECT bytes FROM storage_usage").values().flat().sort();

test("[contract 16] the storage quotas of users and projects hold to the byte", async () => {
  const { attach } = await conversation();
  expect((await attach(400, "ann")).status).toBe(201);
  const more = await attach(1, "ann");
  expect([more.status, more.body.code]).toEqual([507, "SVC_STORAGE_FULL"]);
  expect((await attach(400, "ben")).status).toBe(201);
  expect((await attach(201)).status).toBe(507);
  expect((await attach(200)).status).toBe(201);
  expect((await attach(1, "cleo")).status).toBe(507);
  // Another project has its own.
  const other = await conversation();
  expect((await other.attach(400, "ann")).status).toBe(201);
});

test("[contract 16] deleted and expired attachments free their storage quota", async () => {
  const before = used();
  const { at, call, attach } = await conversation();
  const { body } = await attach(5, "ann");
  await server.app.handle(
    new Request(String(body.uploadUrl), { method: "PUT", body: "bytes", headers: { "content-type": "text/plain" } }),
  );
  await call("POST", `/v1/chat/attachments/${body.id}/complete`);
  const sent = await call("POST", `${at}/messages`, { attachmentId: body.id, senderId: "ann" });
  expect(sent.status).toBe(201);
  await attach(300, "ann");
  expect(used()).toEqual([...before, 305, 305].sort());
  await call("DELETE", `/v1/chat/messages/${sent.body.id}`);
  expect(used()).toEqual([...before, 300, 300].sort());
  server.clock.advance(25 * 3_600_000);
  await server.services.attachments.removals.expireUnsent();
  expect(used()).toEqual([]);
});
