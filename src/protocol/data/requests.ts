/** Requests from participant to participant, in the format of LiveKit's RPC. */
import type { DataPacket, RpcFailure } from "./data-packet.ts";
import type { DataStreams } from "./data-streams.ts";
import type { StreamReader } from "./stream-reader.ts";

/** The codes of failures, as LiveKit numbers them. */
const FAILURES = {
  1400: "The receiver has no handler for this method.",
  1401: "The receiver is not in the room.",
  1402: "The request's payload is too large.",
  1404: "The receiver does not know this version of requests.",
  1500: "The handler has failed.",
  1501: "The receiver does not respond.",
  1502: "The handler has not answered in time.",
  1503: "The receiver has left the room.",
  1504: "The response's payload is too large.",
  1505: "The request could not be sent.",
} as const;

const MAX_MESSAGE_BYTES = 256;
const MAX_DATA_BYTES = 15_360;

/** The failure of a request. A handler throws it to answer with a code of the application, below 1000 or above 1999. */
export class RequestError extends Error {
  /** LiveKit's code: 1400 unknown method, 1401 not in the room, 1502 no answer in time, 1503 left meanwhile … */
  readonly code: number;
  /** What the handler has added, at most 15 KB of text. */
  readonly data: string | undefined;

  /** `code` is defined by the application, and `data` is what the caller may need besides the message. */
  constructor(code: number, message: string, data?: string) {
    super(truncate(message, MAX_MESSAGE_BYTES));
    this.name = "RequestError";
    this.code = code;
    this.data = data === undefined ? undefined : truncate(data, MAX_DATA_BYTES);
  }
}

/** Answers requests. An error that it throws reaches the caller. */
export type RequestHandler = (payload: string, from: string) => string | Promise<string>;

/** Options for `room.request`. */
export type RequestOptions = {
  /** How long to wait for the response; 15,000 ms by default. */
  timeoutMs?: number;
};

type RequestsDeps = {
  send(packet: DataPacket): Promise<void>;
  streams: DataStreams;
  present(): readonly string[];
  newId(): string;
  /** Called when a handler throws anything but a `RequestError`. */
  onError(error: unknown): void;
};

type Pending = { to: string; settle(result: string | RequestError): void; acknowledged(): void };

/** Every client accepts packets with this much payload; a larger one is sent as a stream. */
export const MAX_PACKET_PAYLOAD_BYTES = 15_360;
const MAX_PAYLOAD_BYTES = 1_024 * 1_024;
export const DEFAULT_TIMEOUT_MS = 15_000;
export const ACK_TIMEOUT_MS = 7_000;
/** A response that comes sooner saves the acknowledgement, which is a third of the packets. */
const LATE_ACK_MS = 1_000;
/** The limit of requests that are handled at the same time; further ones fail. */
const MAX_RUNNING = 5_000;

const PACKET_VERSION = 1;

const loadStreams = () => import("./request-streams.ts");

export class Requests {
  readonly #deps: RequestsDeps;
  readonly #handlers = new Map<string, RequestHandler>();
  readonly #pending = new Map<string, Pending>();
  #running = 0;

  constructor(deps: RequestsDeps) {
    this.#deps = deps;
    deps.streams.onStream("lk.rpc_request", (reader, from) => this.#requestStream(reader, from));
    deps.streams.onStream("lk.rpc_response", (reader, from) => this.#responseStream(reader, from));
  }

  /** Returns a function that removes the handler. */
  onRequest(method: string, handler: RequestHandler): () => void {
    if (this.#handlers.has(method)) throw new Error(`Requests of the method "${method}" have a handler already.`);
    this.#handlers.set(method, handler);
    return () => void this.#handlers.delete(method);
  }

  async request(to: string, method: string, payload = "", options: RequestOptions = {}): Promise<string> {
    const { timeoutMs = DEFAULT_TIMEOUT_MS } = options;
    const size = bytesOf(payload);
    if (size > MAX_PAYLOAD_BYTES) throw failure(1402);
    if (!this.#deps.present().includes(to)) throw failure(1401);
    const id = this.#deps.newId();
    const response = new Promise<string>((resolve, reject) => {
      const late = (code: 1501 | 1502, ms: number) => setTimeout(() => this.#settle(id, to, failure(code)), ms);
      const ackTimer = late(1501, ACK_TIMEOUT_MS);
      const timer = late(1502, timeoutMs);
      this.#pending.set(id, {
        to,
        acknowledged: () => clearTimeout(ackTimer),
        settle: (result) => {
          clearTimeout(ackTimer);
          clearTimeout(timer);
          if (result instanceof RequestError) reject(result);
          else resolve(result);
        },
      });
    });
    const sent =
      size > MAX_PACKET_PAYLOAD_BYTES
        ? loadStreams().then((streams) =>
            streams.sendRequest(this.#deps.streams, to, { id, method, payload, timeoutMs }),
          )
        : this.#deps.send({
            request: { id, method, payload, timeoutMs, version: PACKET_VERSION, lateAck: 1 },
            to: [to],
          });
    sent.catch(() => this.#settle(id, to, failure(1505)));
    return response;
  }

  /** Returns false for a packet that does not belong to a request. */
  receive({ from = "", request, requestAck, response }: DataPacket): boolean {
    if (request) void this.#handlePacket(request, from);
    else if (requestAck) this.#pendingOf(requestAck.id, from)?.acknowledged();
    else if (response) {
      const { id = "", payload = "", error } = response;
      this.#settle(id, from, error ? errorOf(error) : payload);
    } else return false;
    return true;
  }

  left(identity: string): void {
    for (const [id, { to }] of [...this.#pending]) if (to === identity) this.#settle(id, to, failure(1503));
  }

  /** The session has ended, so open requests fail. */
  reset(): void {
    for (const [id, { to }] of [...this.#pending]) this.#settle(id, to, failure(1505));
  }

  async #handlePacket(request: NonNullable<DataPacket["request"]>, from: string): Promise<void> {
    const { id = "", method = "", payload = "", version, lateAck } = request;
    let timer: ReturnType<typeof setTimeout> | undefined;
    if (lateAck) timer = setTimeout(() => this.#acknowledge(id, from), LATE_ACK_MS);
    else this.#acknowledge(id, from);
    if (version !== PACKET_VERSION) this.#respond(id, from, failure(1404));
    else await this.#handle(id, method, payload, from);
    clearTimeout(timer);
  }

  async #requestStream(reader: StreamReader, from: string): Promise<void> {
    const { readRequest } = await loadStreams();
    const { id, method, payload, failed } = await readRequest(reader, (id) => this.#acknowledge(id, from));
    if (failed) this.#respond(id, from, failure(failed));
    else await this.#handle(id, method, payload, from);
  }

  async #responseStream(reader: StreamReader, from: string): Promise<void> {
    const { readResponse } = await loadStreams();
    const { id, payload } = await readResponse(reader, (id) => this.#pendingOf(id, from) !== undefined);
    this.#settle(id, from, payload ?? failure(1504));
  }

  async #handle(id: string, method: string, payload: string, from: string): Promise<void> {
    const handler = this.#handlers.get(method);
    if (!handler || this.#running >= MAX_RUNNING) {
      this.#respond(id, from, failure(handler ? 1500 : 1400));
      return;
    }
    this.#running += 1;
    try {
      this.#respond(id, from, (await handler(payload, from)) ?? "");
    } catch (error) {
      if (!(error instanceof RequestError)) this.#deps.onError(error);
      this.#respond(id, from, error instanceof RequestError ? error : failure(1500));
    } finally {
      this.#running -= 1;
    }
  }

  #acknowledge(id: string, to: string): void {
    this.#deps.send({ requestAck: { id }, to: [to] }).catch(() => {});
  }

  #respond(id: string, to: string, result: string | RequestError): void {
    const send = (response: DataPacket["response"]) => this.#deps.send({ response, to: [to] });
    const size = typeof result === "string" ? bytesOf(result) : 0;
    // The server is not a participant and accepts packets only, not streams.
    const limit = this.#deps.present().includes(to) ? MAX_PAYLOAD_BYTES : MAX_PACKET_PAYLOAD_BYTES;
    if (size > limit) this.#respond(id, to, failure(1504));
    else if (typeof result !== "string") {
      const { code, message, data = "" } = result;
      send({ id, error: { code, message, data } }).catch(() => {});
    } else if (size > MAX_PACKET_PAYLOAD_BYTES)
      loadStreams()
        .then((streams) => streams.sendResponse(this.#deps.streams, to, id, result))
        .catch(() => {});
    else send({ id, payload: result }).catch(() => {});
  }

  /** Only the participant that was asked may answer. */
  #pendingOf(id: string | undefined, from: string): Pending | undefined {
    const pending = this.#pending.get(id ?? "");
    return pending?.to === from ? pending : undefined;
  }

  #settle(id: string, from: string, result: string | RequestError): void {
    const pending = this.#pendingOf(id, from);
    this.#pending.delete(pending ? id : "");
    pending?.settle(result);
  }
}

export const failure = (code: keyof typeof FAILURES) => new RequestError(code, FAILURES[code]);

export const errorOf = ({ code = 1500, message = "", data }: RpcFailure) =>
  new RequestError(code, message, data || undefined);

const bytesOf = (text: string) => new TextEncoder().encode(text).length;

/** The longest beginning of the text that has at most `maxBytes` bytes and only whole characters. */
function truncate(text: string, maxBytes: number): string {
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= maxBytes) return text;
  return new TextDecoder().decode(bytes.subarray(0, maxBytes), { stream: true });
}
