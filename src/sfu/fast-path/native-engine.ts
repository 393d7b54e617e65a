/** The functions of the C files. */
import { dlopen, FFIType, type Pointer } from "bun:ffi";
import ipaddr from "ipaddr.js";

const { ptr, u32, i32, f64 } = FFIType;

const SYMBOLS = {
  stoa_open: { args: [], returns: ptr },
  stoa_close: { args: [ptr], returns: FFIType.void },
  stoa_add_cipher: { args: [ptr, u32, ptr, u32], returns: u32 },
  stoa_remove_cipher: { args: [ptr, u32], returns: FFIType.void },
  stoa_live_ciphers: { args: [ptr], returns: u32 },
  stoa_protect: { args: [ptr, u32, ptr, u32, u32, u32, u32], returns: u32 },
  stoa_unprotect: { args: [ptr, u32, ptr, u32, u32, u32, u32], returns: i32 },
  stoa_protect_rtcp: { args: [ptr, u32, ptr, u32, u32, u32], returns: u32 },
  stoa_unprotect_rtcp: { args: [ptr, u32, ptr, u32, u32, u32], returns: i32 },
  stoa_add_receiver: { args: [ptr, u32, u32], returns: u32 },
  stoa_forget_stream: { args: [ptr, u32, u32], returns: FFIType.void },
  stoa_remove_receiver: { args: [ptr, u32], returns: FFIType.void },
  stoa_receive_rtp: { args: [ptr, u32, ptr, u32, u32], returns: i32 },
  stoa_receive_rtcp: { args: [ptr, u32, ptr, u32, u32], returns: i32 },
  stoa_fan_out: { args: [ptr, ptr, u32, u32, ptr, ptr, u32, u32, u32, f64, f64, u32, ptr, u32], returns: u32 },
  stoa_send: { args: [i32, u32, ptr, u32, ptr, u32, ptr], returns: u32 },
  stoa_receive_loop: { args: [ptr, ptr, ptr, u32, ptr, u32, ptr], returns: FFIType.void },
  stoa_write_address: { args: [ptr, u32, u32, ptr, u32], returns: u32 },
} as const;

type NativeFunctions = ReturnType<typeof dlopen<typeof SYMBOLS>>["symbols"];

/** The native half of one worker: its own keys and buffers. `engine` is null once it is closed, which every function refuses. */
export type NativeEngine = { readonly functions: NativeFunctions; engine: Pointer | null };

export function openNativeEngine(libraryPath: string): NativeEngine {
  const { symbols: functions } = dlopen(libraryPath, SYMBOLS);
  const engine = functions.stoa_open();
  if (typeof engine !== "number") throw new Error("libcrypto cannot be used");
  return { functions, engine };
}

const WORD = 0x100000000;

/** Writes an address into two words of memory. */
export function setPointer(memory: Uint32Array, at: number, address: number): void {
  memory[at] = address % WORD;
  memory[at + 1] = Math.floor(address / WORD);
}

/** Returns the 16 bytes of an address, IPv4 in its mapped form, or null for an address with a zone (`fe80::1%eth0`). */
export function addressWords(text: string): Uint32Array | null {
  if (text.includes("%") || !ipaddr.isValid(text)) return null;
  const address = ipaddr.parse(text);
  const v6 = address instanceof ipaddr.IPv4 ? address.toIPv4MappedAddress() : address;
  return new Uint32Array(Uint8Array.from(v6.toByteArray()).buffer);
}
