import { FFIType } from "bun:ffi";
import { openLibc } from "./libc.ts";

const MEMFD_CLOEXEC = 1;

/**
 * The descriptor of a file in memory, from which a library can be loaded (`/proc/self/fd/…`): other processes cannot change it, and
 * a noexec mount does not affect it. Linux only.
 */
export function createMemoryFile(name: string): number {
  const libc = openLibc({ memfd_create: { args: [FFIType.cstring, FFIType.u32], returns: FFIType.i32 } });
  const fd = libc?.symbols.memfd_create(Buffer.from(`${name}\0`), MEMFD_CLOEXEC) ?? -1;
  if (fd < 0) throw new Error("the system provides no memory file");
  return fd;
}
