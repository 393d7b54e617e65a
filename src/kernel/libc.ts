import { dlopen, type FFIFunction } from "bun:ffi";

const LIBC: Record<string, readonly string[]> = {
  linux: ["libc.so.6", "libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1"],
  darwin: ["libSystem.B.dylib"],
};

/** The functions of the system's C library; null where it cannot be opened. */
export function openLibc<Symbols extends Record<string, FFIFunction>>(symbols: Symbols) {
  for (const name of LIBC[process.platform] ?? []) {
    try {
      return dlopen(name, symbols);
    } catch {
      // The next name is tried.
    }
  }
  return null;
}
