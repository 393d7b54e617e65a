/**
 * Socket options that Bun does not offer, set through libc where possible. Without them the server works, but is
 * slower.
 */
import { FFIType, ptr } from "bun:ffi";
import { openLibc } from "../libc.ts";

/** Constants of Linux, the same on x64 and arm64. */
export const SOL_SOCKET = 1;
export const SO_ACCEPTCONN = 30;
export const IPPROTO_TCP = 6;
const LINUX = { solSocket: SOL_SOCKET, rcvBuf: 8, sndBuf: 7, rcvBufForce: 33, sndBufForce: 32 };
const DARWIN = { solSocket: 0xffff, rcvBuf: 0x1002, sndBuf: 0x1001, rcvBufForce: null, sndBufForce: null };
/** Linux: (IPPROTO_IP, IP_RECVERR) and (IPPROTO_IPV6, IPV6_RECVERR). */
const RECVERR = [
  [0, 11],
  [41, 25],
] as const;

const SET_OPTION = {
  setsockopt: { args: [FFIType.i32, FFIType.i32, FFIType.i32, FFIType.ptr, FFIType.u32], returns: FFIType.i32 },
} as const;

/** (IPPROTO_TCP, TCP_NOTSENT_LOWAT) by platform. */
const NOT_SENT_LOW_WATER: Record<string, number> = { linux: 25, darwin: 0x201 };

/**
 * Limits how many unsent bytes the operating system buffers for a socket. This buffer can be neither inspected nor
 * discarded, and would grow to seconds of video. `apply` returns false where the option is unavailable.
 */
export function createUnsentBound(bytes: number): { apply(fd: number): boolean; close(): void } {
  const libc = openLibc(SET_OPTION);
  const option = NOT_SENT_LOW_WATER[process.platform];
  const value = new Int32Array([bytes]);
  return {
    apply: (fd) =>
      libc !== null &&
      option !== undefined &&
      libc.symbols.setsockopt(fd, IPPROTO_TCP, option, ptr(value), value.byteLength) === 0,
    close: () => libc?.close(),
  };
}

/** Linux: SO_REUSEPORT and SO_ATTACH_REUSEPORT_CBPF. */
const REUSE_PORT = 15;
const ATTACH_REUSEPORT_CBPF = 51;
/** `struct sock_filter`. */
const INSTRUCTION_BYTES = 8;

/** Controls who may bind the port of a socket that is already bound. Null where the system or the runtime does not support it. */
export type PortReuse = {
  /** Lets other processes of the same user bind the port, if they ask for it as well. Returns whether the kernel accepts this. */
  allow(fd: number, isAllowed: boolean): boolean;
  /**
   * Sets the classic BPF program that decides which socket of the port receives a datagram. Its result is the number of a socket,
   * in the order in which they were bound. Without a program, or with any other result, the kernel chooses by a hash of the
   * addresses.
   */
  attach(fd: number, program: Uint8Array): boolean;
  close(): void;
};

export function openPortReuse(): PortReuse | null {
  const libc = process.platform === "linux" ? openLibc(SET_OPTION) : null;
  if (!libc) return null;
  const set = (fd: number, option: number, value: Int32Array | Uint8Array) =>
    libc.symbols.setsockopt(fd, SOL_SOCKET, option, ptr(value), value.byteLength) === 0;
  return {
    allow: (fd, isAllowed) => set(fd, REUSE_PORT, new Int32Array([isAllowed ? 1 : 0])),
    attach(fd, program) {
      const header = new DataView(new ArrayBuffer(16));
      header.setUint16(0, program.byteLength / INSTRUCTION_BYTES, true);
      header.setBigUint64(8, BigInt(ptr(program)), true);
      return set(fd, ATTACH_REUSEPORT_CBPF, new Uint8Array(header.buffer));
    },
    close: () => libc.close(),
  };
}

export type SocketTuning = {
  /** When false, sends may fail after a peer has closed its port, and must be retried (see `udp.ts`). */
  icmpErrorsSilenced: boolean;
  buffersRaised: boolean;
};

/**
 * Turns off the ICMP errors that Bun enables on the socket (IP_RECVERR): on a shared socket, a peer that closed its
 * port would make the next send to any peer fail. It also enlarges the buffers: the default of 212 KB drops packets at
 * 10,000 per second.
 */
export function tuneUdpSocket(fd: number, bufferBytes: number): SocketTuning {
  const libc = openLibc(SET_OPTION);
  if (!libc) return { icmpErrorsSilenced: false, buffersRaised: false };
  const set = (level: number, option: number, value: number) =>
    libc.symbols.setsockopt(fd, level, option, ptr(new Int32Array([value])), 4) === 0;
  const numbers = process.platform === "darwin" ? DARWIN : LINUX;
  const raise = (force: number | null, plain: number) =>
    (force !== null && set(numbers.solSocket, force, bufferBytes)) || set(numbers.solSocket, plain, bufferBytes);
  const silenced =
    process.platform !== "linux" || RECVERR.map(([level, option]) => set(level, option, 0)).some(Boolean);
  const received = raise(numbers.rcvBufForce, numbers.rcvBuf);
  const sent = raise(numbers.sndBufForce, numbers.sndBuf);
  libc.close();
  return { icmpErrorsSilenced: silenced, buffersRaised: received && sent };
}
