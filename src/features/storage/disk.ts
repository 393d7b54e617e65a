import { mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { ApiError, invalid } from "../../protocol/errors.ts";
import type { UrlSigner } from "./signed-url.ts";
import type { Storage } from "./storage.ts";

/**
 * Files under the data directory. An upload arrives in `incoming` under a key of its own, and moves to `objects` once
 * the database has that key. The next start can therefore tell which files in `incoming` a crash left behind.
 */
export type DiskStorage = Storage & {
  /** Streams to disk and returns the SHA-256. Throws, and leaves nothing, unless exactly `size` bytes arrive. */
  receive(objectKey: string, body: ReadableStream<Uint8Array> | null, size: number): Promise<string>;
  /** Moves a received file to its final place, durably. Returns false when the file was removed in the meantime. */
  keep(objectKey: string): Promise<boolean>;
  read(objectKey: string): Promise<Bun.BunFile | null>;
  /** Called at startup: finishes the uploads that `isCurrent` accepts, and removes all others. */
  recover(isCurrent: (objectKey: string) => boolean): Promise<{ kept: number; removed: number }>;
};

const KEY = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export function diskStorage(folder: string, signer: UrlSigner): DiskStorage {
  const incoming = join(folder, "incoming");
  const objects = join(folder, "objects");
  const checked = (key: string) => {
    // Paths are built only from valid object keys, even if a row contains something else.
    if (!KEY.test(key)) throw new Error("not an object key");
    return key;
  };
  const incomingPath = (key: string) => join(incoming, checked(key));
  // The tail of a UUIDv7 is random, so that folders fill evenly.
  const objectPath = (key: string) => join(objects, checked(key).slice(-2), key);

  async function keep(key: string): Promise<boolean> {
    const path = objectPath(key);
    const made = await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    if (made !== undefined) await syncFolders(folder, objects);
    try {
      await rename(incomingPath(key), path);
    } catch (error) {
      if (isMissing(error)) return false;
      throw error;
    }
    await syncFolders(dirname(path));
    return true;
  }

  async function remove(key: string): Promise<void> {
    // In this order a concurrent rename either finds no file, or its result is removed.
    await rm(incomingPath(key), { force: true });
    await rm(objectPath(key), { force: true });
  }

  return {
    newObjectKey: () => null,
    signUpload: (file, publicUrl, ttlSeconds) => ({
      url: signer.sign(publicUrl, file, "PUT", ttlSeconds),
      headers: { "content-type": file.mimeType },
    }),
    signDownload: (file, publicUrl, ttlSeconds) => signer.sign(publicUrl, file, "GET", ttlSeconds),
    holds: async (key, size) => (await sizeOf(objectPath(key))) === size,
    // Each upload has its own key and is hashed when received; its file is never written again.
    seal: () => Promise.reject(new Error("files on disk are sealed as they arrive")),
    onThisMachine: async (key) => objectPath(key),
    remove,
    keep,

    async receive(key, body, size) {
      await mkdir(incoming, { recursive: true, mode: 0o700 });
      const path = incomingPath(key);
      const file = await open(path, "wx", 0o600);
      try {
        const hasher = new Bun.CryptoHasher("sha256");
        let received = 0;
        for await (const chunk of chunksOf(body)) {
          received += chunk.byteLength;
          if (received > size)
            throw new ApiError("SVC_ATTACHMENT_TOO_LARGE", `The file is larger than the declared ${size} bytes.`);
          hasher.update(chunk);
          await file.writeFile(chunk);
        }
        if (received < size) throw invalid("body", `only ${received} of the declared ${size} bytes arrived`);
        await file.sync();
        return hasher.digest("hex");
      } catch (error) {
        await rm(path, { force: true });
        throw error;
      } finally {
        await file.close();
      }
    },

    async read(key) {
      const path = objectPath(key);
      return (await sizeOf(path)) === null ? null : Bun.file(path);
    },

    async recover(isCurrent) {
      const counts = { kept: 0, removed: 0 };
      for (const name of await namesIn(incoming)) {
        if (KEY.test(name) && isCurrent(name) && (await keep(name))) counts.kept += 1;
        else {
          await rm(join(incoming, name), { recursive: true, force: true });
          counts.removed += 1;
        }
      }
      return counts;
    },
  };
}

/** A client that disconnects is not an error of the server. */
async function* chunksOf(body: ReadableStream<Uint8Array> | null): AsyncGenerator<Uint8Array> {
  if (!body) return;
  try {
    yield* body;
  } catch {
    throw invalid("body", "the connection ended before the whole file had arrived");
  }
}

async function sizeOf(path: string): Promise<number | null> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

/** A file name is durable only after a sync of its folder. */
async function syncFolders(...folders: string[]): Promise<void> {
  for (const folder of folders) {
    const handle = await open(folder, "r");
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  }
}

function isMissing(error: unknown): boolean {
  return (error as { code?: string }).code === "ENOENT";
}
