import { closeSync, fsyncSync, openSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { giveToOwnerOf } from "./file-owner.ts";

/** Puts a whole file in place, for its owner alone: neither a full disk nor a power failure leaves a part of it. */
export function writeDurably(path: string, text: string): void {
  const folder = dirname(path);
  const fresh = `${path}.new`;
  writeFileSync(fresh, text, { mode: 0o600, flush: true });
  giveToOwnerOf(folder)(fresh);
  renameSync(fresh, path);
  syncFolder(folder);
}

/** A rename is on disk once its folder is. */
export function syncFolder(path: string): void {
  const folder = openSync(path, "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
