import { afterAll, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { s3Storage } from "../../../src/features/storage/s3.ts";
import { presignS3 } from "../../../src/features/storage/s3-presign.ts";
import { testConfig } from "../../harness/test-config.ts";
import { refusal, type S3Credentials, s3TestServer } from "./s3-server.ts";

const credentials: S3Credentials = {
  accessKeyId: "AKTEST",
  secretAccessKey: "a/secret+with=signs",
  region: "eu-west-3",
  bucket: "files",
};
const s3 = s3TestServer(credentials);
afterAll(s3.stop);

const storageWith = (change: Partial<S3Credentials> = {}) => {
  const { accessKeyId, secretAccessKey, region, bucket } = { ...credentials, ...change };
  const storage = s3Storage(
    testConfig({
      STORAGE_S3_ENDPOINT: s3.endpoint,
      STORAGE_S3_BUCKET: bucket,
      STORAGE_S3_REGION: region,
      STORAGE_S3_ACCESS_KEY_ID: accessKeyId,
      STORAGE_S3_SECRET_ACCESS_KEY: secretAccessKey,
    }),
    () => Bun.randomUUIDv7(),
  );
  if (!storage) throw new Error("no bucket");
  return storage;
};
const storage = storageWith();
const fileOf = (text: string, filename = "ü (1)'*.txt", mimeType = "text/html") => ({
  id: "att_x",
  objectKey: storage.newObjectKey(),
  filename,
  mimeType,
  size: text.length,
});

test("the test's bucket computes signatures as AWS documents them", () => {
  const example = new URL(
    "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404",
  );
  const documented: S3Credentials = {
    accessKeyId: "AKIAIOSFODNN7EXAMPLE",
    secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    region: "us-east-1",
    bucket: "examplebucket",
  };
  const at = Date.parse("2013-05-24T12:00:00Z");
  const judged = (url: URL, method = "GET") =>
    refusal(new Request(url, { method }), url, new Uint8Array(), documented, at);
  expect(judged(example)).toBeNull();
  expect(judged(example, "DELETE")).toBe("SignatureDoesNotMatch");
  expect(judged(new URL(example.href.replace("test.txt", "test.tx")))).toBe("SignatureDoesNotMatch");
});

test("[contract 9] with a bucket, upload and download go to addresses presigned for it", async () => {
  const file = fileOf("hello");
  const upload = storage.signUpload(file, "http://unused", 900);
  expect(upload.url).toStartWith(`${s3.endpoint}/files/attachments/`);
  expect(new URL(upload.url).searchParams.get("X-Amz-Expires")).toBe("900");
  expect((await fetch(upload.url, { method: "PUT", headers: upload.headers, body: "hello" })).status).toBe(200);

  const download = await fetch(storage.signDownload(file, "http://unused", 900));
  expect(download.status).toBe(200);
  expect(await download.text()).toBe("hello");
  expect(download.headers.get("content-type")).toBe("text/html");
  expect(download.headers.get("content-disposition")).toBe(
    "attachment; filename=\"_ (1)'*.txt\"; filename*=UTF-8''%C3%BC%20%281%29%27%2A.txt",
  );
});

test("[contract 9] a presigned address allows its method, its object and its headers alone", async () => {
  const file = fileOf("hello");
  const upload = storage.signUpload(file, "", 900).url;
  const download = storage.signDownload(file, "", 900);
  const status = async (url: string, method: string) =>
    (await fetch(url, { method, ...(method === "PUT" ? { body: "x" } : {}) })).status;
  expect(await status(upload, "GET")).toBe(403);
  expect(await status(upload, "DELETE")).toBe(403);
  expect(await status(download, "PUT")).toBe(403);
  expect(await status(upload.replace(/attachments\/.{4}/, "attachments/0000"), "PUT")).toBe(403);
  expect(await status(download.replace("attachment%3B", "inline%3B"), "GET")).toBe(403);
  expect(await status(download.replace("text%2Fhtml", "text%2Fplain"), "GET")).toBe(403);
  expect(s3.objects.has(file.objectKey ?? "")).toBe(false);
});

test("a presigned upload accepts exactly the declared length and type, and cannot copy other objects", async () => {
  const file = fileOf("hello");
  const upload = storage.signUpload(file, "", 900);
  const put = async (body: string, headers: Record<string, string>) =>
    (await fetch(upload.url, { method: "PUT", headers, body })).status;
  expect(await put("hell", upload.headers)).toBe(403);
  expect(await put("hello!", upload.headers)).toBe(403);
  expect(await put("hello", { "content-type": "text/plain" })).toBe(403);
  expect(await put("hello", { ...upload.headers, "x-amz-copy-source": "/files/of-another" })).toBe(403);
  expect(await put("hello", { ...upload.headers, "x-amz-acl": "public-read" })).toBe(403);
  expect(s3.objects.has(file.objectKey ?? "")).toBe(false);
  expect(await put("hello", upload.headers)).toBe(200);
});

test("addresses are signed as AWS documents it", () => {
  const documented = {
    accessKeyId: "AKIAIOSFODNN7EXAMPLE",
    secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    region: "us-east-1",
  };
  const url = presignS3(documented, {
    method: "GET",
    url: new URL("https://examplebucket.s3.amazonaws.com/test.txt"),
    headers: {},
    ttlSeconds: 86_400,
    at: Date.parse("2013-05-24T00:00:00Z"),
  });
  expect(url).toEndWith("&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404");
});

test("[contract 9] completion verifies the exact size in the bucket and returns the hash of the sealed object", async () => {
  const file = fileOf("hello");
  const key = file.objectKey ?? "";
  const holding = (text: string) => {
    s3.objects.set(key, { bytes: new TextEncoder().encode(text), type: "x/y" });
    return storage.holds(key, 5);
  };
  expect(await storage.holds(key, 5)).toBe(false);
  expect([await holding("hell"), await holding("hello!"), await holding("hello")]).toEqual([false, false, true]);

  const sealedKey = storage.newObjectKey() ?? "";
  const sha256 = createHash("sha256").update("hello").digest("hex");
  expect(await storage.seal(key, sealedKey, 5)).toEqual({ sha256 });
  expect(await storage.seal(key, sealedKey, 6)).toBeNull();
  await expect(storage.seal("attachments/gone", sealedKey, 5)).rejects.toThrow("NoSuchKey");
});

test("[contract 9] removal empties the bucket, and may be repeated", async () => {
  const key = storage.newObjectKey() ?? "";
  s3.objects.set(key, { bytes: new Uint8Array(3), type: "x/y" });
  await storage.remove(key);
  expect(s3.objects.has(key)).toBe(false);
  await storage.remove(key);
});

test("[contract 9] a bucket that refuses requests is an error, not a missing upload", async () => {
  const stranger = storageWith({ secretAccessKey: "another" });
  s3.objects.set("k", { bytes: new Uint8Array(1), type: "x/y" });
  await expect(stranger.holds("k", 1)).rejects.toThrow();
  await expect(stranger.seal("k", "k2", 1)).rejects.toThrow();
  await expect(stranger.remove("k")).rejects.toThrow();
  expect(s3.objects.has("k")).toBe(true);
});

test("[contract 9] without a configured bucket there is no S3 storage", () => {
  expect(s3Storage(testConfig(), () => "x")).toBeNull();
});
