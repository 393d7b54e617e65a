import { readdir } from "node:fs/promises";
import { join, relative } from "node:path";
import { boundedText, checkedFetch } from "../../kernel/net/checked-fetch.ts";
import type { Target } from "../../kernel/net/targets.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { type Bucket, mimeTypeOf } from "./output-plan.ts";

/** The bucket responded, but did not accept the file. */
export class UploadRefused extends Error {}

/**
 * The limit for all files of an output together: a bucket that accepts one byte a minute would otherwise keep the egress, and its
 * reservation, forever.
 */
const UPLOAD_WITHIN_MS = 30 * 60_000;
const MAX_ANSWER_BYTES = 64 * 1_024;
const SIGNED_SECONDS = 3_600;

/**
 * Uploads all files in a folder to the bucket that a caller named. The endpoint's address is checked like a webhook's, and the
 * request is sent to the checked address.
 */
export async function uploadFolder(
  runtime: Pick<Runtime, "fetch" | "lookup">,
  folder: string,
  bucket: Bucket,
  allows: (target: Target) => boolean,
): Promise<void> {
  const client = new Bun.S3Client({
    bucket: bucket.bucket,
    accessKeyId: bucket.accessKeyId,
    secretAccessKey: bucket.secretAccessKey,
    ...(bucket.sessionToken === null ? {} : { sessionToken: bucket.sessionToken }),
    ...(bucket.endpoint === null ? {} : { endpoint: bucket.endpoint }),
    ...(bucket.region === null ? {} : { region: bucket.region }),
    ...(bucket.virtualHostedStyle ? { virtualHostedStyle: true } : {}),
  });
  const signal = AbortSignal.timeout(UPLOAD_WITHIN_MS);
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const key = relative(folder, path);
    const response = await checkedFetch(runtime, client.presign(key, { method: "PUT", expiresIn: SIGNED_SECONDS }), {
      method: "PUT",
      allows,
      body: Bun.file(path),
      headers: { "content-type": mimeTypeOf(key) },
      signal,
    });
    const text = (await boundedText(response, MAX_ANSWER_BYTES)) ?? "";
    if (!response.ok) throw new UploadRefused(`It answered ${/<Code>(\w+)</.exec(text)?.[1] ?? response.status}.`);
  }
}

/** The URL of an uploaded object, without credentials. */
export function locationIn({ bucket, endpoint, region }: Bucket, key: string): string {
  if (endpoint === null) return `https://${bucket}.s3.${region ?? "us-east-1"}.amazonaws.com/${key}`;
  return `${endpoint.replace(/\/$/, "")}/${bucket}/${key}`;
}
