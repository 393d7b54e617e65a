import { type RequestResponse, SignalRequest } from "@livekit/protocol";

/** What a client asks. `case` is undefined for one that is newer than the words we know. */
export type Request = SignalRequest["message"];

/** Most clients send protobuf; JavaScript may send its JSON. Null: neither. */
export function readRequest(text: string | null, binary: Buffer | undefined): Request | null {
  try {
    const request =
      text === null ? SignalRequest.fromBinary(binary ?? Buffer.alloc(0)) : SignalRequest.fromJsonString(text);
    return request.message;
  } catch {
    return null;
  }
}

/** A request that is refused is named in the answer, where the protocol has a place for it. */
export function named(request: Request): Partial<Pick<RequestResponse, "request" | "requestId">> {
  switch (request.case) {
    case "addTrack":
    case "mute":
    case "updateMetadata":
    case "updateAudioTrack":
    case "updateVideoTrack":
      return { request, ...(request.case === "updateMetadata" && { requestId: request.value.requestId }) };
    case "publishDataTrackRequest":
      return { request: { case: "publishDataTrack", value: request.value } };
    case "unpublishDataTrackRequest":
      return { request: { case: "unpublishDataTrack", value: request.value } };
    default:
      return {};
  }
}
