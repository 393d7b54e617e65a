import { open } from "node:fs/promises";
import type { Config } from "../../kernel/config/index.ts";
import { contentDisposition } from "./content-headers.ts";
import { presignS3 } from "./s3-presign.ts";
import type { Storage } from "./storage.ts";

/** A hash needs the whole object to be read; for larger ones `complete` would wait too long. */
const HASH_UP_TO_BYTES = 128 * 1024 * 1024;
const COPY_TTL_SECONDS = 60;
const COPY_TIMEOUT_MS = 300_000;

/** The configured bucket; null when there is none. */
export function s3Client(config: Config) {
  const { STORAGE_S3_BUCKET: bucket } = config;
  if (bucket === undefined) return null;
  const access = {
    region: config.STORAGE_S3_REGION,
    accessKeyId: config.STORAGE_S3_ACCESS_KEY_ID ?? "",
    secretAccessKey: config.STORAGE_S3_SECRET_ACCESS_KEY ?? "",
  };
  return { bucket, access, client: new Bun.S3Client({ bucket, endpoint: config.STORAGE_S3_ENDPOINT, ...access }) };
}

/** An S3-compatible bucket. Clients write to it and read from it directly. Null unless one is configured. */
export function s3Storage(config: Config, newKey: () => string): Storage | null {
  const s3 = s3Client(config);
  if (s3 === null) return null;
  const { bucket, access, client } = s3;

  /** The bucket compares with its own clock, so this uses the system time. */
  const presignPut = (objectKey: string, headers: Record<string, string>, ttlSeconds: number) =>
    presignS3(access, {
      method: "PUT",
      url: new URL(client.presign(objectKey, { method: "PUT" })),
      headers,
      ttlSeconds,
      at: Date.now(),
    });

  const keyOf = ({ objectKey }: { objectKey: string | null }) => {
    if (objectKey === null) throw new Error("an object in the bucket always has a key");
    return objectKey;
  };

  return {
    newObjectKey: () => `attachments/${newKey()}`,

    signUpload: (file, _publicUrl, ttlSeconds) => ({
      url: presignPut(keyOf(file), { "content-length": String(file.size), "content-type": file.mimeType }, ttlSeconds),
      // No content-length header is signed: every HTTP client sets it, and scripts of a page cannot.
      headers: { "content-type": file.mimeType },
    }),

    // The type and disposition are signed, so that the bucket does not use those of the uploader.
    signDownload: (file, _publicUrl, ttlSeconds) =>
      client.presign(keyOf(file), {
        method: "GET",
        expiresIn: ttlSeconds,
        type: file.mimeType,
        contentDisposition: contentDisposition(file),
      }),

    holds: async (objectKey, size) => (await sizeOf(client, objectKey)) === size,

    // The signed upload URL stays valid until it expires, but does not refer to the copy.
    async seal(objectKey, sealedKey, size) {
      const headers = { "x-amz-copy-source": `/${bucket}/${objectKey}` };
      const url = presignPut(sealedKey, headers, COPY_TTL_SECONDS);
      const response = await fetch(url, { method: "PUT", headers, signal: AbortSignal.timeout(COPY_TIMEOUT_MS) });
      const body = await response.text();
      // An error during the copy is reported in the body, with status 200.
      if (!response.ok || body.includes("<Error>")) {
        throw new Error(`the bucket did not copy an upload: ${/<Code>(\w+)/.exec(body)?.[1] ?? response.status}`);
      }
      if ((await sizeOf(client, sealedKey)) !== size) return null;
      return { sha256: size <= HASH_UP_TO_BYTES ? await hashOf(client, sealedKey) : null };
    },

    async onThisMachine(objectKey, path) {
      const file = await open(path, "w", 0o600);
      try {
        for await (const chunk of client.file(objectKey).stream()) await file.writeFile(chunk);
      } finally {
        await file.close();
      }
      return path;
    },

    remove: (objectKey) => client.delete(objectKey),
  };
}

async function sizeOf(client: Bun.S3Client, objectKey: string): Promise<number | null> {
  try {
    return (await client.stat(objectKey)).size;
  } catch (error) {
    const { code } = error as { code?: string };
    if (code === "NoSuchKey" || code === "NotFound") return null;
    throw error;
  }
}

async function hashOf(client: Bun.S3Client, objectKey: string): Promise<string> {
  const hasher = new Bun.CryptoHasher("sha256");
  for await (const chunk of client.file(objectKey).stream()) hasher.update(chunk);
  return hasher.digest("hex");
}
