/**
 * Where a file is stored. Each row contains its location, so that files stay readable after a change of configuration.
 */
export type Location = "disk" | "s3";

type StoredFile = {
  /** The public id, which is part of the URL of a file on this server. */
  id: string;
  /** The key of the stored object; null until the disk has received it. */
  objectKey: string | null;
  filename: string;
  mimeType: string;
  size: number;
};

type SignedUpload = { url: string; headers: Record<string, string> };

/** Where attachments are stored: this server's disk, or a bucket. */
export type Storage = {
  /** The key of a new object; null if the storage creates the key when it receives the upload. */
  newObjectKey(): string | null;
  signUpload(file: StoredFile, publicUrl: string, ttlSeconds: number): SignedUpload;
  signDownload(file: StoredFile, publicUrl: string, ttlSeconds: number): string;
  /** Whether exactly `size` bytes were uploaded. */
  holds(objectKey: string, size: number): Promise<boolean>;
  /**
   * Copies an upload to a key that no signed URL refers to, so that the checked bytes cannot change any more. Null when
   * the size changed in the meantime; the hash is null where it would take too long.
   */
  seal(objectKey: string, sealedKey: string, size: number): Promise<{ sha256: string | null } | null>;
  /** Returns a path on this machine: the object's own, or `path` after copying the object there. */
  onThisMachine(objectKey: string, path: string): Promise<string>;
  /** Has no effect when the object does not exist. */
  remove(objectKey: string): Promise<void>;
};
