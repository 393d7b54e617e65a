import { afterAll, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { createTestAccounts } from "../../../harness/accounts.ts";
import { attachmentWorld } from "./attachment-world.ts";

const world = await attachmentWorld();
afterAll(world.close);
const { ask, key, alice, bob, mallory, room } = world;
const requests = `/v1/chat/conversations/${room}/attachments`;
const upload = { filename: "notes.txt", mimeType: "text/plain", size: 5 };

test("[4.3] an upload is requested, sent, completed, sent in a message and downloaded", async () => {
  const { status, body } = await ask("POST", requests, { as: alice, body: { ...upload, metadata: { a: 1 } } });
  expect(status).toBe(201);
  expect(body).toEqual({
    id: expect.stringMatching(/^att_[A-Za-z0-9]{24}$/),
    conversationId: room,
    filename: "notes.txt",
    mimeType: "text/plain",
    size: 5,
    sha256: null,
    status: "PENDING",
    uploaderId: "alice",
    metadata: { a: 1 },
    createdAt: new Date(world.clock.now()).toISOString(),
    uploadUrl: expect.stringMatching(new RegExp(`^${world.server.url}/v1/storage/${body.id}\\?`)),
    uploadMethod: "PUT",
    uploadHeaders: { "content-type": "text/plain" },
    expiresAt: new Date(world.clock.now() + 900_000).toISOString(),
  });
  const complete = `/v1/chat/attachments/${body.id}/complete`;
  expect((await ask("POST", complete, { as: alice })).body.code).toBe("SVC_ATTACHMENT_NOT_READY");
  const early = await ask("GET", `/v1/chat/attachments/${body.id}/download-url`, { as: alice });
  expect([early.status, early.body.code]).toEqual([409, "SVC_ATTACHMENT_NOT_READY"]);

  const sha256 = createHash("sha256").update("hello").digest("hex");
  const sent = await world.put(body, "hello");
  expect([sent.status, sent.body]).toEqual([200, { id: body.id, size: 5, sha256 }]);
  expect((await ask("GET", `/v1/chat/attachments/${body.id}`, { as: alice })).body).toMatchObject({
    status: "PENDING",
    sha256: null,
  });

  const completed = await ask("POST", complete, { as: alice });
  expect(completed.status).toBe(200);
  expect(completed.body).toMatchObject({ id: body.id, status: "UPLOADED", sha256 });
  expect(completed.body).not.toHaveProperty("uploadUrl");
  expect((await ask("POST", complete, { as: alice })).body).toEqual(completed.body);

  const message = await ask("POST", `/v1/chat/conversations/${room}/messages`, {
    as: alice,
    body: { type: "attachment", attachmentId: body.id },
  });
  expect(message.status).toBe(201);
  expect(message.body.attachment).toEqual(completed.body);

  const link = await ask("GET", `/v1/chat/attachments/${body.id}/download-url`, { as: bob });
  expect(link.body).toEqual({
    url: expect.any(String),
    expiresAt: new Date(world.clock.now() + 900_000).toISOString(),
  });
  expect(await (await fetch(link.body.url)).text()).toBe("hello");
});

test("[4.3] the size is 1 to STORAGE_MAX_ATTACHMENT_BYTES, and a larger one gets no address", async () => {
  const asked = async (size: unknown) => {
    const { status, body } = await ask("POST", requests, { as: key, body: { ...upload, size } });
    return [status, body.code];
  };
  expect(await asked(0)).toEqual([400, "SVC_VALIDATION_FAILED"]);
  expect(await asked(-1)).toEqual([400, "SVC_VALIDATION_FAILED"]);
  expect(await asked(1.5)).toEqual([400, "SVC_VALIDATION_FAILED"]);
  expect(await asked("5")).toEqual([400, "SVC_VALIDATION_FAILED"]);
  expect(await asked(1)).toEqual([201, undefined]);
  expect(await asked(1024)).toEqual([201, undefined]);
  expect(await asked(26_214_400)).toEqual([201, undefined]);
  expect(await asked(26_214_401)).toEqual([413, "SVC_ATTACHMENT_TOO_LARGE"]);
  expect(await asked(Number.MAX_SAFE_INTEGER)).toEqual([413, "SVC_ATTACHMENT_TOO_LARGE"]);
});

test("[2] a filename has 1-255 code points of any kind, and a mimeType follows RFC 6838", async () => {
  const asked = async (change: object) =>
    (await ask("POST", requests, { as: key, body: { ...upload, ...change } })).status;
  expect(await asked({ filename: "" })).toBe(400);
  expect(await asked({ filename: "x" })).toBe(201);
  expect(await asked({ filename: "😀".repeat(255) })).toBe(201);
  expect(await asked({ filename: "😀".repeat(256) })).toBe(400);
  expect(await asked({ filename: "x".repeat(256) })).toBe(400);
  expect(await asked({ filename: '../../etc/passwd\0"\r\n' })).toBe(201);
  expect(await asked({ filename: 5 })).toBe(400);

  const longest = `${"a".repeat(127)}/${"b".repeat(127)}`;
  for (const mimeType of ["text/plain", "application/vnd.api+json", "image/svg+xml", "x-a/y_b", longest]) {
    expect({ mimeType, status: await asked({ mimeType }) }).toEqual({ mimeType, status: 201 });
  }
  const wrong = [
    "",
    "text",
    "text/",
    "/plain",
    "text/plain; charset=utf-8",
    "a b/c",
    "a/b\r\nx: y",
    "té/xt",
    `${longest}b`,
  ];
  for (const mimeType of wrong) {
    expect({ mimeType, status: await asked({ mimeType }) }).toEqual({ mimeType, status: 400 });
  }
});

test("[8] metadata is at most CHAT_MAX_METADATA_BYTES of UTF-8, and an object", async () => {
  const asked = async (metadata: unknown) =>
    (await ask("POST", requests, { as: key, body: { ...upload, metadata } })).status;
  const ofBytes = (bytes: number) => ({ k: "é".repeat((bytes - 8) / 2) });
  expect(Buffer.byteLength(JSON.stringify(ofBytes(4096)))).toBe(4096);
  expect(await asked(ofBytes(4096))).toBe(201);
  expect(await asked(ofBytes(4098))).toBe(400);
  for (const wrong of ["text", 5, true, [1], null]) expect([wrong, await asked(wrong)]).toEqual([wrong, 400]);
});

test("[2] uploaderId is honoured for servers only", async () => {
  const asked = async (as: string, uploaderId?: string) =>
    (await ask("POST", requests, { as, body: { ...upload, uploaderId } })).body.uploaderId;
  expect(await asked(key, "bob")).toBe("bob");
  expect(await asked(key)).toBeNull();
  expect(await asked(key, "")).toBeNull();
  expect(await asked(alice, "bob")).toBe("alice");
});

test("[1] a retry with its Idempotency-Key replays the response and makes no second attachment", async () => {
  const headers = { "idempotency-key": "upload-1" };
  const first = await ask("POST", requests, { as: key, body: upload, headers });
  world.clock.advance(60_000);
  const again = await ask("POST", requests, { as: key, body: upload, headers });
  expect([again.status, again.headers.get("idempotent-replayed")]).toEqual([201, "true"]);
  expect(again.body).toEqual(first.body);
  const other = await ask("POST", requests, { as: key, body: { ...upload, size: 6 }, headers });
  expect([other.status, other.body.code]).toEqual([422, "SVC_IDEMPOTENCY_KEY_REUSED"]);
});

test("[4.3] non-members, other users and other projects get 404, and requests without a credential 401", async () => {
  const { id } = await world.request(5);
  const routes = [
    ["GET", `/v1/chat/attachments/${id}`],
    ["POST", `/v1/chat/attachments/${id}/complete`],
    ["GET", `/v1/chat/attachments/${id}/download-url`],
  ] as const;
  const { key: otherProject } = await createTestAccounts(world.server.runtime, world.server.services).project();
  for (const as of [mallory, otherProject]) {
    for (const [method, path] of routes) {
      const { status, body } = await ask(method, path, { as });
      expect([method, path, status, body.code]).toEqual([method, path, 404, "SVC_ATTACHMENT_NOT_FOUND"]);
    }
    const { status, body } = await ask("POST", requests, { as, body: upload });
    expect([status, body.code]).toEqual([404, "SVC_CONVERSATION_NOT_FOUND"]);
  }
  for (const [method, path] of routes) expect((await fetch(world.server.url + path, { method })).status).toBe(401);

  // Bob is a member, but completing is the uploader's.
  expect((await ask("POST", `/v1/chat/attachments/${id}/complete`, { as: bob })).status).toBe(404);
  for (const unknown of ["att_000000000000000000000000", "..%2f..%2fstoa.db", "att_", "%00"]) {
    expect((await ask("GET", `/v1/chat/attachments/${unknown}/download-url`, { as: key })).status).toBe(404);
  }
});

test("[4.3] only an uploaded attachment of the same conversation can be sent, by its uploader", async () => {
  const send = async (as: string, attachmentId: string, to = room) => {
    const { status, body } = await ask("POST", `/v1/chat/conversations/${to}/messages`, {
      as,
      body: { type: "attachment", attachmentId },
    });
    return [status, body.code];
  };
  const { id: pending } = await world.request(5);
  expect(await send(alice, pending)).toEqual([409, "SVC_ATTACHMENT_NOT_READY"]);
  expect(await send(alice, "att_000000000000000000000000")).toEqual([404, "SVC_ATTACHMENT_NOT_FOUND"]);

  const { id } = await world.upload("of alice");
  const members = [{ userId: "alice" }];
  const other = await ask("POST", "/v1/chat/conversations", { as: key, body: { name: "other", members } });
  expect(await send(alice, id, other.body.id)).toEqual([404, "SVC_ATTACHMENT_NOT_FOUND"]);
  expect(await send(bob, id)).toEqual([404, "SVC_ATTACHMENT_NOT_FOUND"]);
  expect(await send(alice, id)).toEqual([201, undefined]);
  // Now that everyone in the conversation has it, anyone there may pass it on.
  expect(await send(bob, id)).toEqual([201, undefined]);
  expect(await send(key, id)).toEqual([201, undefined]);
});

test("[contract 4] an archived conversation accepts no uploads", async () => {
  const members = [{ userId: "alice" }];
  const created = await ask("POST", "/v1/chat/conversations", { as: key, body: { name: "archive", members } });
  const path = `/v1/chat/conversations/${created.body.id}`;
  const before = await ask("POST", `${path}/attachments`, { as: alice, body: upload });
  await world.put(before.body, "hello");
  await ask("PATCH", path, { as: key, body: { status: "ARCHIVED" } });
  const refused = await ask("POST", `${path}/attachments`, { as: alice, body: upload });
  expect([refused.status, refused.body.code]).toEqual([409, "SVC_CONVERSATION_ARCHIVED"]);
  const completed = await ask("POST", `/v1/chat/attachments/${before.body.id}/complete`, { as: alice });
  expect([completed.status, completed.body.code]).toEqual([409, "SVC_CONVERSATION_ARCHIVED"]);
});

test("[8] a user can request as many uploads in a window as messages, a server any number", async () => {
  const carol = await world.token("carol");
  await ask("POST", `/v1/chat/conversations/${room}/members`, { as: key, body: { userId: "carol" } });
  const statuses = [];
  for (let i = 0; i < 31; i += 1) statuses.push((await ask("POST", requests, { as: carol, body: upload })).status);
  expect(statuses).toEqual([...Array(30).fill(201), 429]);
  expect((await ask("POST", requests, { as: key, body: upload })).status).toBe(201);
});
