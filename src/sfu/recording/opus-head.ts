/** How an Opus stream begins in a file (RFC 7845 §5.1): nothing is skipped, as a call has no beginning of its own. */
export function opusHead(channels: number): Uint8Array {
  const out = new Uint8Array(19);
  out.set(new TextEncoder().encode("OpusHead"));
  out[8] = 1;
  out[9] = channels;
  new DataView(out.buffer).setUint32(12, 48_000, true);
  return out;
}
