/** The functions of the C files. */
import { dlopen, FFIType, type Pointer } from "bun:ffi";

const { ptr, u32, i32 } = FFIType;

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
  stoa_fan_out: { args: [ptr, ptr, u32, ptr, u32, ptr, u32], returns: FFIType.void },
  stoa_fan_out_run: { args: [ptr, ptr, u32, u32, ptr, ptr, u32, ptr, u32], returns: u32 },
  stoa_send: { args: [i32, u32, ptr, u32, ptr, u32, ptr], returns: u32 },
  stoa_add_receiver: { args: [ptr, u32], returns: u32 },
  stoa_remove_receiver: { args: [ptr, u32], returns: FFIType.void },
  stoa_receive_rtp: { args: [ptr, u32, ptr, u32, u32], returns: i32 },
  stoa_receive_rtcp: { args: [ptr, u32, ptr, u32, u32], returns: i32 },
  stoa_watch: { args: [ptr, ptr, ptr, u32, ptr, u32, ptr], returns: FFIType.void },
  stoa_write_address: { args: [ptr, u32, u32, ptr, u32], returns: u32 },
  stoa_take: { args: [ptr, u32, ptr, ptr, u32], returns: u32 },
} as const;

export type NativeFunctions = ReturnType<typeof dlopen<typeof SYMBOLS>>["symbols"];

/** What one worker has of the native code: its own keys and buffers. Every function refuses an engine that is null: closed. */
export type NativeEngine = { readonly functions: NativeFunctions; engine: Pointer | null };

export function openNativeEngine(libraryPath: string): NativeEngine {
  const { symbols: functions } = dlopen(libraryPath, SYMBOLS);
  const engine = functions.stoa_open();
  if (typeof engine !== "number") throw new Error("libcrypto cannot be used");
  return { functions, engine };
}
