// Big-endian access to packet bytes. The JIT inlines plain functions over Uint8Array, which need no DataView per packet.
// Callers check the bounds.

export function readUint8(data: Uint8Array, offset: number): number {
  return data[offset] as number;
}

export function readUint16(data: Uint8Array, offset: number): number {
  return ((data[offset] as number) << 8) | (data[offset + 1] as number);
}

export function readUint24(data: Uint8Array, offset: number): number {
  return ((data[offset] as number) << 16) | ((data[offset + 1] as number) << 8) | (data[offset + 2] as number);
}

export function readUint32(data: Uint8Array, offset: number): number {
  return (
    (((data[offset] as number) << 24) |
      ((data[offset + 1] as number) << 16) |
      ((data[offset + 2] as number) << 8) |
      (data[offset + 3] as number)) >>>
    0
  );
}

export function writeUint16(data: Uint8Array, offset: number, value: number): void {
  data[offset] = value >>> 8;
  data[offset + 1] = value;
}

export function writeUint24(data: Uint8Array, offset: number, value: number): void {
  data[offset] = value >>> 16;
  data[offset + 1] = value >>> 8;
  data[offset + 2] = value;
}

export function writeUint32(data: Uint8Array, offset: number, value: number): void {
  data[offset] = value >>> 24;
  data[offset + 1] = value >>> 16;
  data[offset + 2] = value >>> 8;
  data[offset + 3] = value;
}

export function readAscii(data: Uint8Array, offset: number, length: number): string {
  let text = "";
  for (let i = 0; i < length; i++) text += String.fromCharCode(data[offset + i] as number);
  return text;
}

export function writeAscii(data: Uint8Array, offset: number, text: string): void {
  for (let i = 0; i < text.length; i++) data[offset + i] = text.charCodeAt(i);
}
