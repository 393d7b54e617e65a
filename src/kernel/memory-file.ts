import { dlopen, FFIType } from "bun:ffi";

const MEMFD_CLOEXEC = 1;
const LIBC = ["libc.so.6", "libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1"];

/**
 * The descriptor of a file in memory, from which a library can be loaded (`/proc/self/fd/…`): other processes cannot change it, and
 * a noexec mount does not affect it.
 */
export function createMemoryFile(name: string): number {
  for (const libc of LIBC) {
    try {
      const { symbols } = dlopen(libc, {
        memfd_create: { args: [FFIType.cstring, FFIType.u32], returns: FFIType.i32 },
      });
      const fd = symbols.memfd_create(Buffer.from(`${name}\0`), MEMFD_CLOEXEC);
      if (fd >= 0) return fd;
    } catch {
      // The next libc name is tried.
    }
  }
  throw new Error("the system provides no memory file");
}
