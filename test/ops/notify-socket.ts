import { FFIType, ptr } from "bun:ffi";
import { openLibc } from "../../src/kernel/libc.ts";

const { i32, ptr: pointer, u32, u64 } = FFIType;
const AF_UNIX = 1;
const SOCK_DGRAM = 2;
const MSG_DONTWAIT = 0x40;

/** A socket as systemd has it for the messages of a service. */
export function notifySocket(path: string) {
  const libc = openLibc({
    socket: { args: [i32, i32, i32], returns: i32 },
    bind: { args: [i32, pointer, u32], returns: i32 },
    recv: { args: [i32, pointer, u64, i32], returns: FFIType.i64 },
    close: { args: [i32], returns: i32 },
  });
  if (!libc) throw new Error("there is no libc");
  const { socket, bind, recv, close } = libc.symbols;
  const address = Buffer.concat([Uint8Array.of(AF_UNIX, 0), Buffer.from(path), Uint8Array.of(0)]);
  const fd = socket(AF_UNIX, SOCK_DGRAM, 0);
  if (bind(fd, ptr(address), address.byteLength) !== 0) throw new Error(`${path} cannot be bound`);
  const buffer = Buffer.alloc(4_096);
  return {
    /** The messages since the last call. */
    messages(): string[] {
      const found: string[] = [];
      for (let bytes = 0; ; found.push(buffer.toString("utf8", 0, bytes))) {
        bytes = Number(recv(fd, ptr(buffer), buffer.byteLength, MSG_DONTWAIT));
        if (bytes < 0) return found;
      }
    },
    close(): void {
      close(fd);
      libc.close();
    },
  };
}
