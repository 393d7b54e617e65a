import type { Config } from "../../kernel/config/index.ts";
import { s3Client } from "./s3.ts";
import { presignS3 } from "./s3-presign.ts";

/** Uploads from this server to the bucket; large files use multipart uploads. */
export type BucketUploads = {
  /** The origin with which browsers exchange files. */
  origin: string;
  put(objectKey: string, body: Blob, signal: AbortSignal): Promise<void>;
  /** Starts a multipart upload and returns its id. */
  begin(objectKey: string, mimeType: string, signal: AbortSignal): Promise<string>;
  /** `number` counts from 1. Returns the etag of the part, which `complete` needs. */
  part(objectKey: string, uploadId: string, number: number, body: Blob, signal: AbortSignal): Promise<string>;
  complete(objectKey: string, uploadId: string, etags: readonly string[], signal: AbortSignal): Promise<void>;
  /** Aborts a multipart upload and removes its parts. Has no effect when the upload is already aborted or complete. */
  abandon(objectKey: string, uploadId: string): Promise<void>;
};

export class BucketError extends Error {
  constructor(readonly code: string) {
    super(`the bucket responded ${code}`);
    this.name = "BucketError";
  }
}

const TTL_SECONDS = 900;
const TIMEOUT_MS = 600_000;

export function s3Uploads(config: Config): BucketUploads | null {
  const s3 = s3Client(config);
  if (s3 === null) return null;
  const { access, client } = s3;

  type BucketRequest = {
    query?: Record<string, string>;
    mimeType?: string;
    body?: Blob | string;
    signal?: AbortSignal;
  };
  async function send(method: string, objectKey: string, { query = {}, mimeType, body, signal }: BucketRequest) {
    const headers: Record<string, string> = mimeType === undefined ? {} : { "content-type": mimeType };
    const url = presignS3(access, {
      method,
      url: new URL(client.presign(objectKey, { method: "PUT" })),
      headers,
      query,
      ttlSeconds: TTL_SECONDS,
      at: Date.now(),
    });
    const timeout = AbortSignal.timeout(TIMEOUT_MS);
    const response = await fetch(url, {
      method,
      headers,
      body,
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
    const text = await response.text();
    // An error after the first byte of the response is reported in the body, with status 200.
    if (!response.ok || text.includes("<Error>"))
      throw new BucketError(textOf(text, "Code") ?? String(response.status));
    return { text, etag: response.headers.get("etag") };
  }

  return {
    origin: new URL(client.presign("any")).origin,

    async put(objectKey, body, signal) {
      await send("PUT", objectKey, { body, mimeType: body.type, signal });
    },

    async begin(objectKey, mimeType, signal) {
      const { text } = await send("POST", objectKey, { query: { uploads: "" }, mimeType, signal });
      const uploadId = textOf(text, "UploadId");
      if (uploadId === null) throw new BucketError("an upload without an id");
      return uploadId;
    },

    async part(objectKey, uploadId, number, body, signal) {
      const query = { partNumber: String(number), uploadId };
      const { etag } = await send("PUT", objectKey, { query, body: untyped(body), signal });
      if (etag === null) throw new BucketError("a part without an etag");
      return etag;
    },

    async complete(objectKey, uploadId, etags, signal) {
      const parts = etags.map(
        (etag, at) => `<Part><PartNumber>${at + 1}</PartNumber><ETag>${escaped(etag)}</ETag></Part>`,
      );
      const body = `<CompleteMultipartUpload>${parts.join("")}</CompleteMultipartUpload>`;
      await send("POST", objectKey, { query: { uploadId }, body, mimeType: "application/xml", signal });
    },

    async abandon(objectKey, uploadId) {
      await send("DELETE", objectKey, { query: { uploadId } }).catch((error) => {
        if (!(error instanceof BucketError) || error.code !== "NoSuchUpload") throw error;
      });
    },
  };
}

/** A part must have no type, because a content-type header that was not signed is rejected. */
function untyped(body: Blob): Blob {
  return body.slice(0, body.size, "");
}

function textOf(xml: string, name: string): string | null {
  const text = new RegExp(`<${name}>([^<]+)</${name}>`).exec(xml)?.[1];
  return (
    text?.replaceAll("&quot;", '"').replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&") ?? null
  );
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
