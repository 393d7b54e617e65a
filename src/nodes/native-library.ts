/** Finds the native library of the packet path: embedded in the binary, or compiled from C in a checkout. */

import { closeSync, existsSync } from "node:fs";
import { join } from "node:path";
import { assetFolder } from "../kernel/assets.ts";
import { messageOf } from "../kernel/error-message.ts";
import { createMemoryFile } from "../kernel/memory-file.ts";
import { compileNative, nativeFingerprint } from "../sfu/fast-path/compile.ts";
import { openNativePath } from "../sfu/fast-path/native-path.ts";
import { findDisagreement } from "../sfu/fast-path/self-test.ts";

export type FanOutChoice = "auto" | "typescript" | "native";

/** `path` can be loaded by every thread of this process until `close`. */
export type NativeLibrary = { path: string; close(): void };

/** The folder in which a checkout compiles the library. */
const CACHE = join(import.meta.dir, "../../.cache/native");

/** The operator requires native code, and it does not work on this machine or build. */
export class NativeUnavailable extends Error {
  override readonly name = "NativeUnavailable";
}

type Log = { info(details: object, message: string): void };

/** Returns null when TypeScript is used instead; throws when native code is required. */
export async function findNativeLibrary(choice: FanOutChoice, log: Log, cache = CACHE): Promise<NativeLibrary | null> {
  if (choice === "typescript") return null;
  let library: NativeLibrary | null = null;
  try {
    library = Bun.isStandaloneExecutable ? await embedded() : await compiled(cache);
    verify(library);
    return library;
  } catch (error) {
    library?.close();
    const reason = messageOf(error);
    if (choice === "native") throw new NativeUnavailable(`MEDIA_FAN_OUT=native is unavailable: ${reason}.`);
    log.info({ reason }, "packet path: native code unavailable, using TypeScript");
    return null;
  }
}

async function embedded(): Promise<NativeLibrary> {
  const file = join(assetFolder("dist/native"), "media.so");
  if (!existsSync(file)) throw new Error("it is not part of this build");
  const fd = createMemoryFile("stoa-media");
  const library = { path: `/proc/self/fd/${fd}`, close: () => closeSync(fd) };
  try {
    // Bun copies the bytes on another thread, without allocating megabytes on this thread's heap.
    await Bun.write(Bun.file(fd), Bun.file(file));
  } catch (error) {
    library.close();
    throw error;
  }
  return library;
}

async function compiled(cache: string): Promise<NativeLibrary> {
  const path = join(cache, `${nativeFingerprint()}.so`);
  if (!existsSync(path)) {
    const result = await compileNative(path);
    if (!result.ok) throw new Error(result.reason);
  }
  return { path, close() {} };
}

function verify(library: NativeLibrary): void {
  const path = openNativePath(library.path);
  try {
    const disagreement = findDisagreement(path);
    if (disagreement !== null) throw new Error(disagreement);
  } finally {
    path.close();
  }
}
