/** Above this size an offer travels compressed, so that a full room fits the server's frame limit. */
const DEFLATE_ABOVE_BYTES = 8_192;

type Carried = { sdp?: string; sdpDeflate?: string };

/** Our own candidates stay at home: the server learns the address from the checks, and mDNS names would stall it. */
export function withoutCandidates(sdp: string): string {
  return sdp.replace(/^a=(candidate:|end-of-candidates).*\r\n/gm, "");
}

/**
 * In the answer, because an encoder follows what the other side says it can take: silence costs next to nothing. Error
 * correction is asked for the same way, where the browser does not offer it by itself.
 */
export function withDtx(answer: string): string {
  const opus = [...answer.matchAll(/^a=rtpmap:(\d+) opus\//gim)];
  return opus.reduce((sdp, [, payloadType]) => {
    const line = new RegExp(`^(a=fmtp:${payloadType} )(.*)$`, "gm");
    return sdp.replace(line, (_, head: string, parameters: string) => {
      const kept = parameters.split(";").filter((one) => !/^\s*(usedtx|useinbandfec)=/.test(one));
      return head + [...kept, "useinbandfec=1", "usedtx=1"].join(";");
    });
  }, answer);
}

export async function packSdp(sdp: string): Promise<Carried> {
  if (sdp.length <= DEFLATE_ABOVE_BYTES) return { sdp };
  const bytes = await through(new Blob([sdp]), new CompressionStream("deflate-raw"));
  let binary = "";
  for (let at = 0; at < bytes.length; at += 0x8000) binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return { sdpDeflate: btoa(binary) };
}

export async function unpackSdp({ sdp, sdpDeflate }: Carried): Promise<string> {
  if (sdpDeflate === undefined) return sdp ?? "";
  const bytes = Uint8Array.from(atob(sdpDeflate), (character) => character.charCodeAt(0));
  return new TextDecoder().decode(await through(new Blob([bytes]), new DecompressionStream("deflate-raw")));
}

async function through(blob: Blob, stream: ReadableWritablePair<BufferSource, BufferSource>): Promise<Uint8Array> {
  const piped = blob.stream().pipeThrough(stream as unknown as ReadableWritablePair<Uint8Array, Uint8Array>);
  return new Uint8Array(await new Response(piped as ReadableStream<Uint8Array<ArrayBuffer>>).arrayBuffer());
}
