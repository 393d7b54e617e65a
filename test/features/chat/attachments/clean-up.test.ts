import { afterAll, expect, test } from "bun:test";
import { attachmentWorld } from "./attachment-world.ts";
import { answered, rawRequest, statusOf } from "./raw-upload.ts";

const world = await attachmentWorld({ CHAT_SEND_RATE_LIMIT: 100_000 });
afterAll(world.close);
const { ask, alice, key, clock, room, server } = world;
const { removals } = server.services.attachments;
const DAY_MS = 24 * 3_600_000;

const show = async (id: string) => {
  const { status, body } = await ask("GET", `/v1/chat/attachments/${id}`, { as: key });
  return status === 200 ? body.status : status;
};
const send = async (attachmentId: string) =>
  (await ask("POST", `/v1/chat/conversations/${room}/messages`, { as: key, body: { attachmentId } })).body;
const filesBecome = async (count: number) => {
  while (world.files().length !== count) await Bun.sleep(2);
};

test("[contract 9] an attachment that is not sent within 24 hours expires, and a sent one stays", async () => {
  const sent = await world.upload("sent");
  const message = await send(sent.id);
  const uploaded = await world.upload("never sent");
  const pending = await world.request(5);
  await world.put(pending, "hello");
  const requested = await world.request(5);
  const address = await world.downloadUrl(uploaded.id);
  expect(world.files()).toHaveLength(3);

  clock.set(clock.now() + DAY_MS);
  expect(await removals.expireUnsent()).toBe(0);
  clock.set(clock.now() + 1);
  expect(await removals.expireUnsent()).toBe(3);
  await filesBecome(1);

  for (const { id } of [uploaded, pending, requested]) {
    expect(await show(id)).toBe("EXPIRED");
    expect((await ask("POST", `/v1/chat/attachments/${id}/complete`, { as: key })).status).toBe(404);
    expect((await ask("GET", `/v1/chat/attachments/${id}/download-url`, { as: key })).status).toBe(404);
    expect((await send(id)).code).toBe("SVC_ATTACHMENT_NOT_FOUND");
  }
  expect((await fetch(address)).status).toBe(403);
  expect(await show(sent.id)).toBe("UPLOADED");
  expect(await (await fetch(await world.downloadUrl(sent.id, key))).text()).toBe("sent");
  expect(await removals.expireUnsent()).toBe(0);

  await ask("DELETE", `/v1/chat/messages/${message.id}`, { as: key });
  await filesBecome(0);
});

test("[contract 9] an expired attachment is removed after a month", async () => {
  const { id } = await world.request(5, key);
  clock.set(clock.now() + DAY_MS + 1);
  await removals.expireUnsent();
  expect(await show(id)).toBe("EXPIRED");
  clock.set(clock.now() + 29 * DAY_MS);
  await removals.expireUnsent();
  expect(await show(id)).toBe(404);
});

test("[contract 9] an upload that is running when its attachment expires is refused and leaves no file", async () => {
  const upload = await world.request(1000, key);
  const raw = await rawRequest(upload.uploadUrl, ["content-length: 1000"]);
  await raw.send(Buffer.alloc(400));
  while (world.files("incoming").length === 0) await Bun.sleep(2);
  clock.set(clock.now() + DAY_MS + 1);
  await removals.expireUnsent();
  await raw.send(Buffer.alloc(600));
  expect(statusOf(await raw.until(answered))).toBe(404);
  raw.destroy();
  await filesBecome(0);
});

test("[contract 13] the record, address and file of a deleted message's attachment are removed", async () => {
  const before = world.files().length;
  const { id } = await world.upload("secret", key);
  const first = await send(id);
  const second = await send(id);
  const address = await world.downloadUrl(id, key);
  expect(await (await fetch(address)).text()).toBe("secret");

  // Two messages show it: the file goes with the last.
  const { body: tombstone } = await ask("DELETE", `/v1/chat/messages/${first.id}`, { as: key });
  expect(tombstone.attachment).toBeNull();
  expect(await (await fetch(address)).text()).toBe("secret");
  await ask("DELETE", `/v1/chat/messages/${second.id}`, { as: key });
  expect(await show(id)).toBe(404);
  expect((await fetch(address)).status).toBe(404);
  await filesBecome(before);
  await ask("DELETE", `/v1/chat/messages/${second.id}`, { as: key });
  const history = await ask("GET", `/v1/chat/conversations/${room}/messages?includeDeleted=true`, { as: key });
  expect(JSON.stringify(history.body)).not.toContain(id);
});

test("the job removes expired attachments every ten minutes", async () => {
  const { id } = await world.request(5, key);
  clock.advance(DAY_MS + 600_000);
  while ((await show(id)) !== "EXPIRED") await Bun.sleep(2);
  expect(await ask("GET", `/v1/chat/attachments/${id}`, { as: alice })).toMatchObject({ status: 401 });
});
