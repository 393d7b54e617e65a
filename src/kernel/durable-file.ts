import { closeSync, fsyncSync, lchownSync, openSync, readdirSync, renameSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** Writes a file that only its owner can read; after a full disk or a power failure it is never incomplete. */
export function writeDurably(path: string, text: string): void {
  const folder = dirname(path);
  const temporary = `${path}.new`;
  writeFileSync(temporary, text, { mode: 0o600, flush: true });
  giveToOwnerOf(folder)(temporary);
  renameSync(temporary, path);
  syncFolder(folder);
}

/** A rename is durable once its folder is synced. */
export function syncFolder(path: string): void {
  const folder = openSync(path, "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

/**
 * Returns a function that changes the owner of a file, or of a folder with its content, to the owner of the data
 * directory. When root writes into the directory of another user, that user runs the server and must be able to read
 * the files. For other users the function does nothing.
 */
export function giveToOwnerOf(dataDir: string): (path: string) => void {
  const { uid, gid } = statSync(dataDir);
  if (process.getuid?.() !== 0 || uid === 0) return () => {};
  const give = (path: string) => {
    // Symbolic links are not followed, because they may point to files of other users.
    lchownSync(path, uid, gid);
  };
  return (path) => {
    const content = statSync(path).isDirectory() ? readdirSync(path, { recursive: true, encoding: "utf8" }) : [];
    for (const name of content) give(join(path, name));
    give(path);
  };
}
