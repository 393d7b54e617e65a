/** Where the native part of the packet path is: inside the binary, or made from its C files in a checkout. */
import { dlopen, FFIType } from "bun:ffi";
import { closeSync, existsSync } from "node:fs";
import { join } from "node:path";
import { assetFolder } from "../kernel/assets.ts";
import { compileNative, nativeFingerprint } from "../sfu/fast-path/compile.ts";
import { openNativePath } from "../sfu/fast-path/native-path.ts";
import { findDisagreement } from "../sfu/fast-path/self-test.ts";

export type FanOutChoice = "auto" | "typescript" | "native";

/** `path` is good for every thread of this process until `close`. */
export type NativeLibrary = { path: string; close(): void };

/** The operator asked for native code, and this machine or build has none that works. */
export class NativeUnavailable extends Error {
  override readonly name = "NativeUnavailable";
}

const MEMFD_CLOEXEC = 1;
const LIBC = ["libc.so.6", "libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1"];

type Log = { info(details: object, message: string): void };

/** Null: TypeScript has to do. Throws when the operator insists on native code and there is none. A checkout compiles into `cache`. */
export async function findNativeLibrary(
  choice: FanOutChoice,
  log: Log,
  cache = join(import.meta.dir, "../../.cache/native"),
): Promise<NativeLibrary | null> {
  if (choice === "typescript") return null;
  let library: NativeLibrary | null = null;
  try {
    library = Bun.isStandaloneExecutable ? await embedded() : await compiled(cache);
    prove(library);
    return library;
  } catch (error) {
    library?.close();
    const reason = error instanceof Error ? error.message : String(error);
    if (choice === "native") throw new NativeUnavailable(`MEDIA_FAN_OUT=native cannot be had here: ${reason}.`);
    log.info({ reason }, "packets are protected and sent by TypeScript: native code cannot be used");
    return null;
  }
}

/**
 * A library has to be a file to be loaded, but none that others could touch or that a read-only or noexec folder could refuse:
 * it lies in memory.
 */
async function embedded(): Promise<NativeLibrary> {
  const file = join(assetFolder("dist/native"), "media.so");
  if (!existsSync(file)) throw new Error("it is not part of this build");
  const fd = createMemoryFile();
  const library = { path: `/proc/self/fd/${fd}`, close: () => closeSync(fd) };
  try {
    // By a thread of Bun's own, from where the bytes lie in the binary: without a copy of megabytes on this one's heap.
    await Bun.write(Bun.file(fd), Bun.file(file));
  } catch (error) {
    library.close();
    throw error;
  }
  return library;
}

function createMemoryFile(): number {
  for (const name of LIBC) {
    try {
      const { symbols } = dlopen(name, {
        memfd_create: { args: [FFIType.cstring, FFIType.u32], returns: FFIType.i32 },
      });
      const fd = symbols.memfd_create(Buffer.from("stoa-media\0"), MEMFD_CLOEXEC);
      if (fd >= 0) return fd;
    } catch {
      // The next name of libc, or none.
    }
  }
  throw new Error("the system gives no memory file");
}

async function compiled(cache: string): Promise<NativeLibrary> {
  const path = join(cache, `${nativeFingerprint()}.so`);
  if (!existsSync(path)) {
    const result = await compileNative(path);
    if (!result.ok) throw new Error(result.reason);
  }
  return { path, close() {} };
}

function prove(library: NativeLibrary): void {
  const path = openNativePath(library.path);
  try {
    const disagreement = findDisagreement(path);
    if (disagreement !== null) throw new Error(disagreement);
  } finally {
    path.close();
  }
}
