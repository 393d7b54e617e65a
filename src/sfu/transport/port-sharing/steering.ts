/**
 * The classic BPF program by which the kernel divides the datagrams of one port among several sockets: a datagram from an address
 * that a socket is known to serve goes to that socket, and all others go to one default socket. The program runs before a datagram
 * is queued, so that usually no process has to relay one. Addresses are compared by a salted key of 31 bits. A datagram whose key
 * collides with another's reaches the wrong process, which relays it.
 */
import ipaddr from "ipaddr.js";

/** The kernel accepts 4,096 instructions; older ones accept 20 KB of translated instructions. */
export const MAX_STEERED = 2_000;
/** Jumps within a bucket reach 255 instructions, and each bucket ends with a result for every socket. */
const BUCKET_KEYS = 64;
const MULTIPLIER = 0x9e3779b1;

const LOAD_BYTE = 0x30;
const LOAD_HALF = 0x28;
const LOAD_WORD = 0x20;
const LOAD_X = 0x01;
const TO_X = 0x07;
const XOR_X = 0xac;
const MULTIPLY = 0x24;
const AND = 0x54;
const SHIFT_RIGHT = 0x74;
const JUMP = 0x05;
const JUMP_EQUAL = 0x15;
const JUMP_GREATER = 0x25;
const RETURN = 0x06;
/** Positions from here on count from the IP header (SKF_NET_OFF). */
const IP_HEADER = 0xfff0_0000;
const V4 = { firstByte: 0x45, source: 12, port: 20 } as const;
const V6 = { version: 6, nextHeader: 6, udp: 17, source: 8, port: 40 } as const;

type Instruction = readonly [code: number, value: number, ifTrue?: number, ifFalse?: number];
/** Datagrams whose address has the key `key` go to the socket with the number `socket`. */
export type Steered = { readonly key: number; readonly socket: number };

/** Returns null for an invalid IP address. */
export function addressKey(address: string, port: number, salt: number): number | null {
  const words = wordsOf(address);
  if (!words) return null;
  let mixed = salt;
  for (const word of words) mixed = Math.imul(word ^ mixed, MULTIPLIER);
  mixed = Math.imul(port ^ mixed, MULTIPLIER);
  return ((mixed >>> 15) ^ mixed) & 0x7fff_ffff;
}

/** The words of recently used addresses, because parsing one costs more than everything else here. */
const known = new Map<string, readonly number[] | null>();
const MAX_KNOWN = 4_096;

function wordsOf(text: string): readonly number[] | null {
  const before = known.get(text);
  if (before !== undefined) return before;
  if (known.size >= MAX_KNOWN) known.clear();
  const words = parseWords(text);
  known.set(text, words);
  return words;
}

function parseWords(text: string): number[] | null {
  const [plain = ""] = text.split("%");
  if (!ipaddr.isValid(plain)) return null;
  const bytes = ipaddr.process(plain).toByteArray();
  const view = new DataView(Uint8Array.from(bytes).buffer);
  return Array.from({ length: bytes.length / 4 }, (_, i) => view.getUint32(i * 4));
}

/** Datagrams that are not steered go to the socket with the number `others`. Throws for more than MAX_STEERED keys. */
export function steeringProgram(steered: readonly Steered[], others: number, salt: number): Uint8Array {
  if (steered.length > MAX_STEERED) throw new RangeError(`${steered.length} addresses are more than the kernel steers`);
  if (steered.length === 0) return encode([[RETURN, others]]);
  const v4 = [...mix([V4.source]), ...mixPort(V4.port)];
  const v6 = [...mix([0, 4, 8, 12].map((at) => V6.source + at)), ...mixPort(V6.port)];
  // Datagrams with IP options or extension headers are not steered.
  const readV6: Instruction[] = [
    [SHIFT_RIGHT, 4],
    [JUMP_EQUAL, V6.version, 1, 0],
    [RETURN, others],
    [LOAD_BYTE, IP_HEADER + V6.nextHeader],
    [JUMP_EQUAL, V6.udp, 1, 0],
    [RETURN, others],
    ...v6,
  ];
  const readV4: Instruction[] = [...v4, [JUMP, readV6.length]];
  return encode([
    [LOAD_X, salt],
    [LOAD_BYTE, IP_HEADER],
    [JUMP_EQUAL, V4.firstByte, 0, readV4.length],
    ...readV4,
    ...readV6,
    [TO_X, 0],
    [SHIFT_RIGHT, 15],
    [XOR_X, 0],
    [AND, 0x7fff_ffff],
    ...search(
      [...steered].sort((a, b) => a.key - b.key),
      others,
    ),
  ]);
}

/** X is the mixed value so far. Afterwards it is in A as well. */
function mix(offsets: readonly number[]): Instruction[] {
  return offsets.flatMap((at): Instruction[] => [
    [LOAD_WORD, IP_HEADER + at],
    [XOR_X, 0],
    [MULTIPLY, MULTIPLIER],
    [TO_X, 0],
  ]);
}

function mixPort(at: number): Instruction[] {
  return [
    [LOAD_HALF, IP_HEADER + at],
    [XOR_X, 0],
    [MULTIPLY, MULTIPLIER],
  ];
}

/** Finds the key in A by binary search, and within the last bucket one by one. */
function search(sorted: readonly Steered[], others: number): Instruction[] {
  if (sorted.length <= BUCKET_KEYS) return bucket(sorted, others);
  const half = sorted.length >> 1;
  const left = search(sorted.slice(0, half), others);
  const pivot = (sorted[half - 1] as Steered).key;
  return [[JUMP_GREATER, pivot, 0, 1], [JUMP, left.length], ...left, ...search(sorted.slice(half), others)];
}

function bucket(sorted: readonly Steered[], others: number): Instruction[] {
  const sockets = [...new Set(sorted.map(({ socket }) => socket))];
  const found = sorted.map(({ key, socket }, i): Instruction => {
    const beyond = sorted.length - 1 - i;
    return [JUMP_EQUAL, key, beyond + 1 + sockets.indexOf(socket), 0];
  });
  return [...found, [RETURN, others], ...sockets.map((socket): Instruction => [RETURN, socket])];
}

function encode(instructions: readonly Instruction[]): Uint8Array {
  const program = new DataView(new ArrayBuffer(instructions.length * 8));
  for (const [i, [code, value, ifTrue = 0, ifFalse = 0]] of instructions.entries()) {
    program.setUint16(i * 8, code, true);
    program.setUint8(i * 8 + 2, ifTrue);
    program.setUint8(i * 8 + 3, ifFalse);
    program.setUint32(i * 8 + 4, value >>> 0, true);
  }
  return new Uint8Array(program.buffer);
}
