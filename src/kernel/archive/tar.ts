/** The subset of tar (POSIX ustar) that a backup needs: plain files, which any tar program can read. */
import type { FileHandle } from "node:fs/promises";

export const BLOCK_BYTES = 512;

const SIZE_AT = 124;
const SIZE_DIGITS = 11;
const CHECKSUM_AT = 148;

export type TarEntry = { name: string; size: number };

/** Throws for a name that is too long for the header. */
export function writeTarHeader({ name, size }: TarEntry, modifiedAt: number, mode = 0o600): Buffer {
  if (Buffer.byteLength(name) > 100) throw new Error(`${name} is too long for a tar header`);
  const header = Buffer.alloc(BLOCK_BYTES);
  header.write(name, 0, "utf8");
  writeOctal(header, 100, 7, mode);
  writeOctal(header, 108, 7, 0);
  writeOctal(header, 116, 7, 0);
  writeSize(header, size);
  writeOctal(header, 136, 11, Math.floor(modifiedAt / 1000));
  header.write("0", 156);
  header.write("ustar\x0000", 257, "latin1");
  header.fill(" ", CHECKSUM_AT, CHECKSUM_AT + 8);
  writeOctal(header, CHECKSUM_AT, 6, checksumOf(header));
  header[CHECKSUM_AT + 6] = 0;
  return header;
}

/** Null for the block of zeros at the end; undefined for an invalid header. */
export function readTarHeader(header: Buffer): TarEntry | null | undefined {
  if (header.every((byte) => byte === 0)) return null;
  const expected = Number.parseInt(readText(header, CHECKSUM_AT, 8).trim(), 8);
  const blanked = Buffer.from(header).fill(" ", CHECKSUM_AT, CHECKSUM_AT + 8);
  if (expected !== checksumOf(blanked) || readText(header, 257, 5) !== "ustar" || readText(header, 156, 1) !== "0") {
    return undefined;
  }
  const size = readSize(header);
  return Number.isSafeInteger(size) ? { name: readText(header, 0, 100), size } : undefined;
}

/** Every entry starts at a multiple of the block size. */
export function paddingOf(size: number): number {
  return (BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES;
}

export async function readFully(file: FileHandle, buffer: Buffer): Promise<boolean> {
  for (let at = 0; at < buffer.length; ) {
    const { bytesRead } = await file.read(buffer, at, buffer.length - at);
    if (bytesRead === 0) return false;
    at += bytesRead;
  }
  return true;
}

function writeOctal(header: Buffer, at: number, digits: number, value: number): void {
  header.write(value.toString(8).padStart(digits, "0"), at, "latin1");
}

/** Sizes from 8 GB do not fit into the octal digits; current tar programs read GNU's binary form. */
function writeSize(header: Buffer, size: number): void {
  if (size < 8 ** SIZE_DIGITS) {
    writeOctal(header, SIZE_AT, SIZE_DIGITS, size);
    return;
  }
  header[SIZE_AT] = 0x80;
  header.writeBigUInt64BE(BigInt(size), SIZE_AT + 4);
}

function readSize(header: Buffer): number {
  if (header[SIZE_AT] === 0x80) return Number(header.readBigUInt64BE(SIZE_AT + 4));
  return Number.parseInt(readText(header, SIZE_AT, SIZE_DIGITS), 8);
}

function checksumOf(header: Buffer): number {
  return header.reduce((sum, byte) => sum + byte, 0);
}

function readText(header: Buffer, at: number, length: number): string {
  const field = header.subarray(at, at + length);
  const end = field.indexOf(0);
  return field.toString("utf8", 0, end < 0 ? length : end);
}
