import type { Frame } from "./rtc-socket.ts";

/** The SDP of a full room exceeds the frame limit, so it is compressed. */
export async function packed(sdp: string): Promise<{ sdp?: string; sdpDeflate?: string }> {
  if (sdp.length <= 8_192) return { sdp };
  const stream = new Blob([sdp]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  return { sdpDeflate: btoa(String.fromCharCode(...bytes)) };
}

export async function plain({ sdp, sdpDeflate }: Frame): Promise<string> {
  if (sdp !== undefined) return String(sdp);
  const bytes = Uint8Array.from(atob(String(sdpDeflate)), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).text();
}
