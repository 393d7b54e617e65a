import { deflateRawSync } from "node:zlib";
import { SDP_DEFLATE_THRESHOLD_BYTES } from "../../../protocol/signaling.ts";

/** A session description in a frame: as text, or deflated (raw) in base64. */
export type PackedSdp = { sdp?: string; sdpDeflate?: string };

/** The SDP of a full room is deflated, because it would not fit into a frame otherwise. */
export function packSdp(sdp: string): PackedSdp {
  if (Buffer.byteLength(sdp) <= SDP_DEFLATE_THRESHOLD_BYTES) return { sdp };
  return { sdpDeflate: deflateRawSync(sdp).toString("base64") };
}
