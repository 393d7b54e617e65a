import { afterAll, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { type S3Credentials, s3TestServer } from "../../storage/s3-server.ts";
import { attachmentWorld } from "./attachment-world.ts";

const credentials: S3Credentials = {
  accessKeyId: "AKTEST",
  secretAccessKey: "a/secret+with=signs",
  region: "eu-west-3",
  bucket: "files",
};
const s3 = s3TestServer(credentials);
const world = await attachmentWorld({
  STORAGE_S3_ENDPOINT: s3.endpoint,
  STORAGE_S3_BUCKET: credentials.bucket,
  STORAGE_S3_REGION: credentials.region,
  STORAGE_S3_ACCESS_KEY_ID: credentials.accessKeyId,
  STORAGE_S3_SECRET_ACCESS_KEY: credentials.secretAccessKey,
});
afterAll(async () => {
  await world.close();
  await s3.stop();
});
const { ask, alice, key, room } = world;
const complete = (id: string) => ask("POST", `/v1/chat/attachments/${id}/complete`, { as: alice });

test("[contract 9] with STORAGE_S3_* set, uploads and downloads use the bucket and nothing is stored on disk", async () => {
  const upload = await world.request(5, alice, { filename: "ü.html", mimeType: "text/html" });
  expect(upload.uploadUrl).toStartWith(`${s3.endpoint}/files/`);
  expect(upload.uploadUrl).not.toContain("secret");
  expect((await complete(upload.id)).body.code).toBe("SVC_ATTACHMENT_NOT_READY");
  expect((await world.put(upload, "hell")).status).toBe(403);
  expect((await complete(upload.id)).body.code).toBe("SVC_ATTACHMENT_NOT_READY");
  expect((await world.put(upload, "hello")).status).toBe(200);
  const sha256 = createHash("sha256").update("hello").digest("hex");
  expect((await complete(upload.id)).body).toMatchObject({ status: "UPLOADED", sha256 });

  const download = await fetch(await world.downloadUrl(upload.id));
  expect([download.status, await download.text()]).toEqual([200, "hello"]);
  expect(download.headers.get("content-type")).toBe("text/html");
  expect(download.headers.get("content-disposition")).toStartWith("attachment;");
  expect(world.files()).toEqual([]);
});

test("[contract 9] deletion and expiry empty the bucket, and wait while it does not respond", async () => {
  const uploaded = await world.upload("to be deleted");
  const unsent = await world.upload("never sent");
  const { body: message } = await ask("POST", `/v1/chat/conversations/${room}/messages`, {
    as: alice,
    body: { attachmentId: uploaded.id },
  });
  const { removals } = world.server.services.attachments;
  const before = s3.objects.size;
  s3.failing = true;
  await ask("DELETE", `/v1/chat/messages/${message.id}`, { as: alice });
  await removals.run();
  expect(s3.objects.size).toBe(before);
  s3.failing = false;
  await removals.run();
  expect(s3.objects.size).toBe(before - 1);

  world.clock.set(world.clock.now() + 24 * 3_600_000 + 1);
  await removals.expireUnsent();
  await removals.run();
  expect((await ask("GET", `/v1/chat/attachments/${unsent.id}`, { as: key })).body.status).toBe("EXPIRED");
  expect(s3.objects.size).toBe(0);
});

test("[contract 9] completing an upload answers 503 while the bucket does not respond, and can be repeated", async () => {
  const upload = await world.request(5, key);
  await world.put(upload, "hello");
  s3.failing = true;
  const failed = await ask("POST", `/v1/chat/attachments/${upload.id}/complete`, { as: key });
  expect([failed.status, failed.body.code]).toEqual([503, "SVC_STORAGE_UNAVAILABLE"]);
  expect(JSON.stringify(failed.body)).not.toContain(credentials.secretAccessKey);
  s3.failing = false;
  const again = await ask("POST", `/v1/chat/attachments/${upload.id}/complete`, { as: key });
  expect(again.body.status).toBe("UPLOADED");
});

const texts = () => [...s3.objects.values()].map(({ bytes }) => new TextDecoder().decode(bytes));
const completeByKey = (id: string) => ask("POST", `/v1/chat/attachments/${id}/complete`, { as: key });
const download = async (id: string) => (await fetch(await world.downloadUrl(id, key))).text();

test("a later PUT to an upload address changes no sent attachment and leaves no object behind", async () => {
  const upload = await world.request(5, key);
  await world.put(upload, "hello");
  expect((await completeByKey(upload.id)).body.status).toBe("UPLOADED");
  // The address is still good, and so are the length and the type.
  expect((await world.put(upload, "bogus")).status).toBe(200);
  expect((await completeByKey(upload.id)).body.status).toBe("UPLOADED");
  expect(await download(upload.id)).toBe("hello");

  const { removals } = world.server.services.attachments;
  await removals.run();
  expect(texts()).toContain("bogus");
  world.clock.set(world.clock.now() + 2 * 900_000);
  await removals.run();
  expect(texts()).not.toContain("bogus");
  expect(await download(upload.id)).toBe("hello");
});

test("a PUT during completion does not replace the verified upload", async () => {
  const upload = await world.request(5, key);
  await world.put(upload, "first");
  s3.onCopy = () => new TextEncoder().encode("longer than that");
  expect((await completeByKey(upload.id)).body.code).toBe("SVC_ATTACHMENT_NOT_READY");
  s3.onCopy = null;
  expect(texts()).toContain("longer than that");
  world.clock.set(world.clock.now() + 3_600_000);
  await world.server.services.attachments.removals.run();
  // The unused copy is removed; the upload itself is not.
  expect(texts()).not.toContain("longer than that");
  expect((await completeByKey(upload.id)).body.status).toBe("UPLOADED");
  expect(await download(upload.id)).toBe("first");
});

test("an upload that is erased before completion leaves no object, even if its address is used again", async () => {
  const { services, runtime } = world.server;
  const upload = await world.request(5, key);
  await world.put(upload, "erase");
  const attachment = services.attachments.find(upload.id);
  await runtime.write((unit) => services.attachments.erase(unit, attachment));
  while (texts().includes("erase")) await Bun.sleep(5);
  // The signature is still valid, so the bucket accepts the upload once more.
  expect((await world.put(upload, "again")).status).toBe(200);
  await services.attachments.removals.run();
  expect(texts()).toContain("again");
  world.clock.set(world.clock.now() + 2 * 900_000);
  await services.attachments.removals.run();
  expect(texts()).not.toContain("again");
  expect((await completeByKey(upload.id)).body.code).toBe("SVC_ATTACHMENT_NOT_FOUND");
});
