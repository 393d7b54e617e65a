import { deflateRawSync, inflateRawSync } from "node:zlib";
import { type FrameError, frameError } from "../../../kernel/socket/frame-error.ts";
import { SDP_DEFLATE_THRESHOLD_BYTES, SDP_MAX_BYTES } from "../../../protocol/signaling.ts";

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
  if (sdp !== undefined) {
    if (Buffer.byteLength(sdp) > SDP_MAX_BYTES) throw tooLarge();
    return sdp;
  }
  return inflate(Buffer.from(sdpDeflate ?? "", "base64"));
}

function inflate(deflated: Buffer): string {
  try {
    return inflateRawSync(deflated, { maxOutputLength: SDP_MAX_BYTES }).toString();
  } catch (error) {
    if (error instanceof RangeError) throw tooLarge();
    throw frameError("SVC_VALIDATION_FAILED", "sdpDeflate is not deflate-raw in base64.");
  }
}

function tooLarge(): FrameError {
  return frameError("SVC_PAYLOAD_TOO_LARGE", `A session description has at most ${SDP_MAX_BYTES} bytes.`);
}
