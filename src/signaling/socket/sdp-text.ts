import { deflateRawSync, inflateRawSync } from "node:zlib";
import { frameError } from "../../kernel/socket/frame-error.ts";
import { SDP_DEFLATE_THRESHOLD_BYTES, SDP_MAX_INFLATED_BYTES } from "../../protocol/signaling.ts";

type SdpText = { sdp?: string; sdpDeflate?: string };

/** SDP as it travels: plain, or deflated when that would not fit the frame of a full room. */
export function packSdp(sdp: string): SdpText {
  if (Buffer.byteLength(sdp) <= SDP_DEFLATE_THRESHOLD_BYTES) return { sdp };
  return { sdpDeflate: deflateRawSync(sdp).toString("base64") };
}

export function unpackSdp({ sdp, sdpDeflate }: SdpText): string {
  if ((sdp === undefined) === (sdpDeflate === undefined)) {
    throw frameError("SVC_VALIDATION_FAILED", "Send either sdp or sdpDeflate.");
  }
  if (sdp !== undefined) return sdp;
  return inflate(Buffer.from(sdpDeflate ?? "", "base64"));
}

function inflate(deflated: Buffer): string {
  try {
    return inflateRawSync(deflated, { maxOutputLength: SDP_MAX_INFLATED_BYTES }).toString();
  } catch (error) {
    if (error instanceof RangeError) {
      throw frameError("SVC_PAYLOAD_TOO_LARGE", `sdpDeflate grows past ${SDP_MAX_INFLATED_BYTES} bytes.`);
    }
    throw frameError("SVC_VALIDATION_FAILED", "sdpDeflate is not deflate-raw in base64.");
  }
}
