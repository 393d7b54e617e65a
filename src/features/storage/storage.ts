/** Where the bytes of a file lie. A row remembers it, so that files outlive a change of configuration. */
export type Location = "disk" | "s3";

type StoredFile = {
  /** Public id; what the address of a file on this server is made of. */
  id: string;
  /** Name of the bytes in their place; null until the disk has received any. */
  objectKey: string | null;
  filename: string;
  mimeType: string;
  size: number;
};

type SignedUpload = { url: string; headers: Record<string, string> };

/** The seam between attachments and their bytes: this server's disk, or a bucket. */
export type Storage = {
  /** The key that is known before the first byte; null where each upload gets a key of its own. */
  newObjectKey(): string | null;
  signUpload(file: StoredFile, publicUrl: string, ttlSeconds: number): SignedUpload;
  signDownload(file: StoredFile, publicUrl: string, ttlSeconds: number): string;
  /** Whether exactly `size` bytes have arrived. */
  holds(objectKey: string, size: number): Promise<boolean>;
  /**
   * Copies an upload to a key of `newObjectKey` that no signed address leads to: what lies there stays as it was judged.
   * Null when other bytes came in between; the hash is null where it is too dear.
   */
  seal(objectKey: string, sealedKey: string, size: number): Promise<{ sha256: string | null } | null>;
  /** A path on this machine with the bytes: their own, or `path`, once they were copied there. */
  onThisMachine(objectKey: string, path: string): Promise<string>;
  /** Repeating it, or removing what was never there, is no error. */
  remove(objectKey: string): Promise<void>;
  /** Throws unless files can be stored now; for diagnostics. */
  check(): Promise<void>;
};
