/** How often Bun collects the garbage of the threads that are started from now on. */
import { dlopen, FFIType } from "bun:ffi";

/**
 * Bun looks once a second whether there is something to collect, and a media worker makes a little garbage with every packet:
 * collecting all it holds would take as much as forwarding for a small room. What is allocated leads to collections all the same.
 */
const EVERY_MS = 30_000;
const LIBC = ["libc.so.6", "libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1", "libSystem.B.dylib"];

/**
 * Bun asks the environment of the process when a thread begins, and `process.env` is only a copy of that. What an operator has
 * set there stays. Without libc, garbage is collected as often as Bun likes.
 */
export function collectSeldom(): boolean {
  for (const name of LIBC) {
    try {
      const { symbols, close } = dlopen(name, {
        setenv: { args: [FFIType.cstring, FFIType.cstring, FFIType.i32], returns: FFIType.i32 },
      });
      const done = symbols.setenv(Buffer.from("BUN_GC_TIMER_INTERVAL\0"), Buffer.from(`${EVERY_MS}\0`), 0) === 0;
      close();
      return done;
    } catch {
      // The next name, or none.
    }
  }
  return false;
}
