/** Requests and responses of more than 15 KB, which are streams; a module of its own, which pages load with the first. */
import type { DataStreams } from "./data-streams.ts";
import type { StreamReader } from "./stream-reader.ts";

const MAX_PAYLOAD_BYTES = 1_024 * 1_024;
const REQUEST_TOPIC = "lk.rpc_request";
const RESPONSE_TOPIC = "lk.rpc_response";
const ATTRIBUTE = {
  id: "lk.rpc_request_id",
  method: "lk.rpc_request_method",
  timeoutMs: "lk.rpc_request_response_timeout_ms",
  version: "lk.rpc_request_version",
} as const;
const STREAM_VERSION = "2";

type LargeRequest = { id: string; method: string; payload: string; timeoutMs: number };

export function sendRequest(streams: DataStreams, to: string, request: LargeRequest): Promise<void> {
  return sendText(streams, REQUEST_TOPIC, to, request.payload, {
    [ATTRIBUTE.id]: request.id,
    [ATTRIBUTE.method]: request.method,
    [ATTRIBUTE.timeoutMs]: String(request.timeoutMs),
    [ATTRIBUTE.version]: STREAM_VERSION,
  });
}

export function sendResponse(streams: DataStreams, to: string, id: string, payload: string): Promise<void> {
  return sendText(streams, RESPONSE_TOPIC, to, payload, { [ATTRIBUTE.id]: id });
}

/** Reads a request; `failed` is the code of the response if it cannot be handled. */
export async function readRequest(
  reader: StreamReader,
  acknowledge: (id: string) => void,
): Promise<{ id: string; method: string; payload: string; failed: 1402 | 1404 | null }> {
  const { [ATTRIBUTE.id]: id = "", [ATTRIBUTE.method]: method = "", [ATTRIBUTE.version]: version } = reader.attributes;
  acknowledge(id);
  if (version !== STREAM_VERSION) return { id, method, payload: "", failed: 1404 };
  const payload = await textOf(reader);
  return { id, method, payload: payload ?? "", failed: payload === null ? 1402 : null };
}

/** Reads the response to a request whose caller waits; null if it is too long. */
export async function readResponse(
  reader: StreamReader,
  isAwaited: (id: string) => boolean,
): Promise<{ id: string; payload: string | null }> {
  const id = reader.attributes[ATTRIBUTE.id] ?? "";
  if (isAwaited(id)) return { id, payload: await textOf(reader) };
  reader.cancel();
  return { id, payload: null };
}

async function sendText(
  streams: DataStreams,
  topic: string,
  to: string,
  text: string,
  attributes: Record<string, string>,
): Promise<void> {
  const size = new TextEncoder().encode(text).length;
  const writer = streams.write("text", { topic, to: [to], attributes, size });
  await writer.write(text);
  await writer.close();
}

/** Returns null if the stream is longer than a payload may be. */
async function textOf(reader: StreamReader): Promise<string | null> {
  let [text, size] = ["", 0];
  const decoder = new TextDecoder();
  for await (const piece of reader) {
    size += piece.length;
    if (size > MAX_PAYLOAD_BYTES) return null;
    text += decoder.decode(piece, { stream: true });
  }
  return text;
}
