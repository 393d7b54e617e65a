import { afterAll, afterEach, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { attachmentWorld } from "./attachment-world.ts";
import { answered, chunked, rawRequest, statusOf } from "./raw-upload.ts";

const world = await attachmentWorld();
afterAll(world.close);
const { ask, alice, key } = world;

const complete = async (id: string) => {
  const { status, body } = await ask("POST", `/v1/chat/attachments/${id}/complete`, { as: alice });
  return [status, body.code ?? body.status];
};
const gone = async (sub: string) => {
  while (world.files(sub).length > 0) await Bun.sleep(2);
};
afterEach(() => gone("incoming"));

test("[contract 9] an upload address that was changed in any part answers 403, and nothing is stored", async () => {
  const upload = await world.request(5);
  const other = await world.request(5);
  const url = new URL(upload.uploadUrl);
  const variants: string[] = [];
  for (const [name, value] of [
    ["size", "6"],
    ["type", "text/html"],
    ["expires", String(Number(url.searchParams.get("expires")) + 1)],
    ["signature", "0".repeat(64)],
  ] as const) {
    const changed = new URL(url);
    changed.searchParams.set(name, value);
    const without = new URL(url);
    without.searchParams.delete(name);
    variants.push(changed.href, without.href);
  }
  variants.push(
    url.href.replace(upload.id, other.id),
    url.href.replace(upload.id, "att_000000000000000000000000"),
    url.href.replace(upload.id, "..%2F..%2Fstoa.db"),
    `${url.href}&size=5`,
    `${url.origin}${url.pathname}`,
    await world.downloadUrl((await world.upload("12345")).id),
  );
  for (const variant of variants) {
    const { status, body } = await world.put({ ...upload, uploadUrl: variant }, "hello");
    expect([variant, status, body.code]).toEqual([variant, 403, "SVC_PERMISSION_DENIED"]);
    expect(JSON.stringify(body)).not.toContain("signature=");
  }
  expect(await complete(upload.id)).toEqual([409, "SVC_ATTACHMENT_NOT_READY"]);
  expect((await fetch(upload.uploadUrl)).status).toBe(403);
});

test("[8] the upload URL expires after STORAGE_UPLOAD_URL_TTL_SECONDS", async () => {
  const upload = await world.request(5);
  world.clock.advance(899_999);
  expect((await world.put(upload, "hello")).status).toBe(200);
  world.clock.advance(1);
  const late = await world.put(upload, "hello");
  expect([late.status, late.body.code]).toEqual([403, "SVC_PERMISSION_DENIED"]);
  expect(await complete(upload.id)).toEqual([200, "UPLOADED"]);
});

test("[contract 9] an upload of a byte fewer or more than declared is refused and leaves no file", async () => {
  const before = world.files().length;
  for (const [body, status, code] of [
    ["", 400, "SVC_VALIDATION_FAILED"],
    ["1234", 400, "SVC_VALIDATION_FAILED"],
    ["123456", 413, "SVC_ATTACHMENT_TOO_LARGE"],
    ["x".repeat(3_000_000), 413, "SVC_ATTACHMENT_TOO_LARGE"],
  ] as const) {
    const upload = await world.request(5);
    const answer = await world.put(upload, body);
    expect([answer.status, answer.body.code]).toEqual([status, code]);
    expect(await complete(upload.id)).toEqual([409, "SVC_ATTACHMENT_NOT_READY"]);
    expect(world.files().length).toBe(before);
    expect((await world.put(upload, "right")).status).toBe(200);
    expect(await complete(upload.id)).toEqual([200, "UPLOADED"]);
    await ask("POST", `/v1/chat/conversations/${world.room}/messages`, {
      as: key,
      body: { attachmentId: upload.id },
    }).then(({ body }) => ask("DELETE", `/v1/chat/messages/${body.id}`, { as: key }));
    while (world.files().length > before) await Bun.sleep(2);
  }
});

test("[contract 9] a chunked upload is accepted with exactly the declared size, and refused when longer or shorter", async () => {
  const send = async (size: number, ...chunks: string[]) => {
    const upload = await world.request(size);
    const request = await rawRequest(upload.uploadUrl, ["transfer-encoding: chunked"]);
    for (const chunk of chunks) await request.send(chunked(chunk));
    await request.send("0\r\n\r\n");
    const status = statusOf(await request.until(answered));
    request.destroy();
    return [status, ...(await complete(upload.id))];
  };
  expect(await send(11, "hello ", "world")).toEqual([200, 200, "UPLOADED"]);
  expect(await send(10, "hello ", "world")).toEqual([413, 409, "SVC_ATTACHMENT_NOT_READY"]);
  expect(await send(12, "hello ", "world")).toEqual([400, 409, "SVC_ATTACHMENT_NOT_READY"]);
});

test("[contract 9] a chunked upload without end is cut off at the declared size", async () => {
  const upload = await world.request(100_000);
  const request = await rawRequest(upload.uploadUrl, ["transfer-encoding: chunked"]);
  const block = chunked(Buffer.alloc(65_536));
  let sent = 0;
  while (!answered(request.received()) && sent < 100_000_000) {
    await request.send(block);
    sent += 65_536;
  }
  expect(statusOf(request.received())).toBe(413);
  request.destroy();
  await gone("incoming");
  expect(await complete(upload.id)).toEqual([409, "SVC_ATTACHMENT_NOT_READY"]);
});

test("[contract 9] a content-length that does not fit is refused before a byte is stored", async () => {
  const upload = await world.request(1000);
  const request = await rawRequest(upload.uploadUrl, ["content-length: 1001"]);
  expect(statusOf(await request.until(answered))).toBe(413);
  expect(world.files("incoming")).toEqual([]);
  request.destroy();
});

test("[contract 9] an interrupted upload leaves no file and can be repeated", async () => {
  const upload = await world.request(1_000_000);
  const request = await rawRequest(upload.uploadUrl, ["content-length: 1000000"]);
  await request.send(Buffer.alloc(400_000));
  while (world.files("incoming").length === 0) await Bun.sleep(2);
  expect(await complete(upload.id)).toEqual([409, "SVC_ATTACHMENT_NOT_READY"]);
  request.destroy();
  await gone("incoming");
  expect(await complete(upload.id)).toEqual([409, "SVC_ATTACHMENT_NOT_READY"]);

  const bytes = Buffer.alloc(1_000_000, 7);
  expect((await world.put(upload, bytes)).body.sha256).toBe(createHash("sha256").update(bytes).digest("hex"));
  expect(await complete(upload.id)).toEqual([200, "UPLOADED"]);
});

test("[contract 9] of parallel uploads to one address exactly one is kept, complete, and the others leave no file", async () => {
  const before = world.files("objects").length;
  const upload = await world.request(200_000);
  const bodies = Array.from({ length: 8 }, (_, i) => Buffer.alloc(200_000, 97 + i));
  const answers = await Promise.all(bodies.map((body) => world.put(upload, body)));
  for (const { status } of answers) expect([200, 409]).toContain(status);
  expect(answers.some(({ status }) => status === 200)).toBe(true);

  const { body } = await ask("POST", `/v1/chat/attachments/${upload.id}/complete`, { as: alice });
  const bytes = new Uint8Array(await (await fetch(await world.downloadUrl(upload.id))).arrayBuffer());
  expect(bodies.some((sent) => sent.equals(bytes))).toBe(true);
  expect(body.sha256).toBe(createHash("sha256").update(bytes).digest("hex"));
  while (world.files("objects").length !== before + 1) await Bun.sleep(2);
});

test("[10] four parallel uploads to one address are allowed, and a fifth is refused until one of them ends", async () => {
  const upload = await world.request(1_000_000);
  const begin = async (files: number) => {
    const request = await rawRequest(upload.uploadUrl, ["content-length: 1000000"]);
    await request.send(Buffer.alloc(1_000));
    while (world.files("incoming").length < files) await Bun.sleep(2);
    return request;
  };
  const four = [await begin(1), await begin(2), await begin(3), await begin(4)];
  const bytes = Buffer.alloc(1_000_000, 7);
  const fifth = await world.put(upload, bytes);
  expect([fifth.status, fifth.body.code]).toEqual([409, "SVC_CONFLICT"]);
  expect(world.files("incoming")).toHaveLength(4);

  for (const request of four) request.destroy();
  await gone("incoming");
  // An upload ends a moment after its file is gone.
  let next = await world.put(upload, bytes);
  while (next.status === 409) next = await world.put(upload, bytes);
  expect(next.status).toBe(200);
  expect(await complete(upload.id)).toEqual([200, "UPLOADED"]);
});

test("[contract 9] a completed attachment cannot be overwritten", async () => {
  const upload = await world.request(5);
  await world.put(upload, "first");
  expect(await complete(upload.id)).toEqual([200, "UPLOADED"]);
  const again = await world.put(upload, "other");
  expect([again.status, again.body.code]).toEqual([409, "SVC_CONFLICT"]);
  expect(await (await fetch(await world.downloadUrl(upload.id))).text()).toBe("first");
});

test("[contract 1] uploads of any type and over 1 MiB are accepted, other requests keep the JSON rules", async () => {
  const bytes = Buffer.alloc(2_000_000, 1);
  const upload = await world.request(bytes.length, alice, { mimeType: "application/x-thing" });
  expect((await world.put(upload, bytes, { "content-type": "multipart/form-data; boundary=x" })).status).toBe(200);
  expect((await fetch(`${world.server.url}/v1/storage/${upload.id}`, { method: "POST", body: bytes })).status).toBe(
    405,
  );
  const large = await fetch(`${world.server.url}/v1/chat/conversations`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ name: "x".repeat(30_000_000) }),
  });
  expect([large.status, (await large.json()).code]).toEqual([413, "SVC_PAYLOAD_TOO_LARGE"]);
});

test("[contract 1] the preflight of any origin passes, and allowedOrigins decides about the upload", async () => {
  const upload = await world.request(5);
  const preflight = await fetch(upload.uploadUrl, {
    method: "OPTIONS",
    headers: {
      origin: "https://app.example.com",
      "access-control-request-method": "PUT",
      "access-control-request-headers": "content-type",
    },
  });
  expect(preflight.status).toBe(204);
  expect(preflight.headers.get("access-control-allow-methods")).toContain("PUT");
  expect(preflight.headers.get("access-control-allow-headers")).toBe("content-type");

  const { runtime } = world.server;
  const allow = (origins: string[]) =>
    runtime.write((unit) => {
      const { projectId } = world.project;
      runtime.db.$client.run("UPDATE projects SET allowed_origins = ? WHERE id = ?", [
        JSON.stringify(origins),
        projectId,
      ]);
      runtime.bus.publish(unit, "projectChanged", { projectId });
    });
  await allow(["https://app.example.com"]);
  const refused = await world.put(upload, "hello", { origin: "https://evil.example.com" });
  expect([refused.status, refused.body.code]).toEqual([403, "SVC_ORIGIN_NOT_ALLOWED"]);
  const allowed = await world.put(upload, "hello", { origin: "https://app.example.com" });
  expect(allowed.status).toBe(200);
  expect(allowed.headers.get("access-control-allow-origin")).toBe("https://app.example.com");
  await allow([]);
});
