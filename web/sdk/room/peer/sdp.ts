import { StoaError } from "../../errors.ts";

/** Above this size an offer travels compressed, so that a full room fits the server's frame limit. */
const DEFLATE_ABOVE_BYTES = 8_192;

type Carried = { sdp?: string; sdpDeflate?: string };

/** Our own candidates stay at home: the server learns the address from the checks, and mDNS names would stall it. */
export function withoutCandidates(sdp: string): string {
  return sdp.replace(/^a=(candidate:|end-of-candidates).*\r\n/gm, "");
}

export async function packSdp(sdp: string): Promise<Carried> {
  // Without the means it travels as it is: small rooms work, and for a large one the server says what does not fit.
  if (sdp.length <= DEFLATE_ABOVE_BYTES || typeof CompressionStream === "undefined") return { sdp };
  const bytes = await through(new CompressionStream("deflate-raw"), new TextEncoder().encode(sdp));
  let binary = "";
  for (let at = 0; at < bytes.length; at += 0x8000) binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return { sdpDeflate: btoa(binary) };
}

export async function unpackSdp({ sdp, sdpDeflate }: Carried): Promise<string> {
  if (sdpDeflate === undefined) return sdp ?? "";
  if (typeof DecompressionStream === "undefined") {
    throw new StoaError("NO_DECOMPRESSION", "unsupported", "This browser is too old for a room of this size.");
  }
  const bytes = Uint8Array.from(atob(sdpDeflate), (character) => character.charCodeAt(0));
  return new TextDecoder().decode(await through(new DecompressionStream("deflate-raw"), bytes));
}

async function through(stream: CompressionStream | DecompressionStream, bytes: Uint8Array<ArrayBuffer>) {
  const writer = stream.writable.getWriter();
  // What fails here fails the reading too.
  writer.write(bytes).catch(() => {});
  writer.close().catch(() => {});
  return new Uint8Array(await new Response(stream.readable).arrayBuffer());
}
