import { join } from "node:path";
import type { Runtime } from "../../kernel/runtime.ts";
import { type DiskStorage, diskStorage } from "./disk.ts";
import { s3Storage } from "./s3.ts";
import { type BucketUploads, s3Uploads } from "./s3-uploads.ts";
import { createUrlSigner, type UrlSigner } from "./signed-url.ts";
import type { Location, Storage } from "./storage.ts";

/** All storage locations. New files go to `current`; older files stay at their location. */
export type Storages = {
  signer: UrlSigner;
  disk: DiskStorage;
  current: Location;
  /** Null when the location is not configured any more. */
  at(location: Location): Storage | null;
  /** Uploads from this server to the bucket; null without a bucket. */
  uploads: BucketUploads | null;
  /** Origins other than this server's with which pages exchange files. */
  bucketOrigins: string[];
};

export function createStorages({ config, keyring, now, ids }: Runtime): Storages {
  const signer = createUrlSigner(keyring, now);
  const disk = diskStorage(join(config.DATA_DIR, "attachments"), signer);
  const s3 = s3Storage(config, ids.uuid);
  const byLocation: Record<Location, Storage | null> = { disk, s3 };
  const uploads = s3Uploads(config);
  const bucketOrigins = uploads ? [uploads.origin] : [];
  return { signer, disk, current: s3 ? "s3" : "disk", at: (location) => byLocation[location], uploads, bucketOrigins };
}
