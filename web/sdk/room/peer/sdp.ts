import { StoaError } from "../../errors.ts";

/** Larger offers are compressed, so that the offer of a full room fits the server's frame limit. */
const DEFLATE_ABOVE_BYTES = 8_192;

type SdpFields = { sdp?: string; sdpDeflate?: string };

/** Removes the local candidates: the server learns addresses from connectivity checks, and mDNS names would delay it. */
export function withoutCandidates(sdp: string): string {
  return sdp.replace(/^a=(candidate:|end-of-candidates).*\r\n/gm, "");
}

export async function packSdp(sdp: string): Promise<SdpFields> {
  // Without CompressionStream small rooms still work; for a large one the server responds that the frame is too large.
  if (sdp.length <= DEFLATE_ABOVE_BYTES || typeof CompressionStream === "undefined") return { sdp };
  const bytes = await transform(new CompressionStream("deflate-raw"), new TextEncoder().encode(sdp));
  let binary = "";
  for (let at = 0; at < bytes.length; at += 0x8000) binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return { sdpDeflate: btoa(binary) };
}

export async function unpackSdp({ sdp, sdpDeflate }: SdpFields): Promise<string> {
  if (sdpDeflate === undefined) return sdp ?? "";
  if (typeof DecompressionStream === "undefined") {
    throw new StoaError("NO_DECOMPRESSION", "unsupported", "This browser is too old for a room of this size.");
  }
  const bytes = Uint8Array.from(atob(sdpDeflate), (character) => character.charCodeAt(0));
  return new TextDecoder().decode(await transform(new DecompressionStream("deflate-raw"), bytes));
}

async function transform(stream: CompressionStream | DecompressionStream, bytes: Uint8Array<ArrayBuffer>) {
  const writer = stream.writable.getWriter();
  // A write error also fails the read below.
  writer.write(bytes).catch(() => {});
  writer.close().catch(() => {});
  return new Uint8Array(await new Response(stream.readable).arrayBuffer());
}
