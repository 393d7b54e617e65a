/** Lets two processes listen on one TCP port while the newer takes over from the older. Linux only. */
import { FFIType, ptr } from "bun:ffi";
import { readdirSync } from "node:fs";
import { openLibc } from "../libc.ts";
import { openPortReuse, SO_ACCEPTCONN, SOL_SOCKET } from "./socket-options.ts";

const { i32, ptr: pointer } = FFIType;
const SYMBOLS = {
  getsockname: { args: [i32, pointer, pointer], returns: i32 },
  getsockopt: { args: [i32, i32, i32, pointer, pointer], returns: i32 },
} as const;

/** `struct sockaddr_in6`. The port has the same place in `sockaddr_in`. */
const ADDRESS_BYTES = 28;

/** A BPF program that always returns 1: the second socket, in the order in which they began to listen. */
const TO_SECOND = Uint8Array.from([0x06, 0, 0, 0, 1, 0, 0, 0]);

/** Bun does not expose the descriptor of an HTTP server, so it is found by its port. */
function listeningOn(port: number): number[] {
  const libc = process.platform === "linux" ? openLibc(SYMBOLS) : null;
  if (!libc) return [];
  const [value, valueBytes] = [new Int32Array(1), new Uint32Array(1)];
  const [address, addressBytes] = [new DataView(new ArrayBuffer(ADDRESS_BYTES)), new Uint32Array(1)];
  const { getsockname, getsockopt } = libc.symbols;
  const found = readdirSync("/proc/self/fd")
    .map(Number)
    .filter((fd) => {
      valueBytes[0] = 4;
      addressBytes[0] = ADDRESS_BYTES;
      if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, ptr(value), ptr(valueBytes)) !== 0 || value[0] !== 1) return false;
      return getsockname(fd, ptr(address), ptr(addressBytes)) === 0 && address.getUint16(2) === port;
    });
  libc.close();
  return found;
}

/**
 * Lets another process of the same user listen on the port as well, if that process asks for it too, or ends that. Unix sockets
 * have port 0.
 */
export function shareListeningPort(port: number, isShared: boolean): boolean {
  const reuse = openPortReuse();
  const fds = listeningOn(port);
  const done = reuse !== null && fds.length > 0 && fds.every((fd) => reuse.allow(fd, isShared));
  reuse?.close();
  return done;
}

/**
 * Makes the kernel give new connections to this process, the second one that listens on the port. Otherwise connections waiting at
 * the other socket would be reset when that is closed.
 */
export function takeListeningPort(port: number): boolean {
  const reuse = openPortReuse();
  const done = reuse !== null && listeningOn(port).every((fd) => reuse.attach(fd, TO_SECOND));
  reuse?.close();
  return done;
}
