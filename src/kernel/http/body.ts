import { ApiError } from "../../protocol/errors.ts";
import { jsonProblem } from "../json.ts";
import type { Timers } from "../time/timers.ts";

export const MAX_BODY_BYTES = 1024 * 1024;
export const SMALL_BODY_BYTES = 16 * 1024;
/** What the larger bodies under way may hold together, whoever sends them. */
const SHARED_BYTES = 64 * 1024 * 1024;
const LARGE_WITHIN_MS = 30_000;

function unreadable(problem: string): ApiError {
  return new ApiError("SVC_VALIDATION_FAILED", problem, { details: [{ field: "body", message: problem }] });
}

export type ReadBody = (request: Request) => Promise<string>;

/**
 * Small bodies are always read; larger ones share a bound and have to arrive in time, or those who never finish theirs
 * would fill the memory with a mebibyte for every connection.
 */
export function createBodyReader({ after }: Timers, sharedBytes = SHARED_BYTES): ReadBody {
  let held = 0;

  async function readLarge(body: ReadableStream<Uint8Array>): Promise<string> {
    const reader = body.getReader();
    const chunks: Uint8Array[] = [];
    let size = 0;
    const late = Promise.withResolvers<null>();
    const cancelLate = after(LARGE_WITHIN_MS, () => late.resolve(null));
    try {
      for (;;) {
        const part = await Promise.race([reader.read(), late.promise]);
        if (part === null) throw unreadable("The body did not arrive in time.");
        if (part.done) return Buffer.concat(chunks).toString();
        chunks.push(part.value);
        size += part.value.byteLength;
        held += part.value.byteLength;
        if (size > MAX_BODY_BYTES) throw new ApiError("SVC_PAYLOAD_TOO_LARGE");
        if (size > SMALL_BODY_BYTES && held > sharedBytes) throw new ApiError("SVC_OVERLOADED");
      }
    } finally {
      held -= size;
      cancelLate();
      reader.cancel().catch(() => {});
    }
  }

  return async (request) => {
    if (!request.body) return "";
    const declared = request.headers.get("content-length");
    if (declared !== null && Number(declared) > MAX_BODY_BYTES) throw new ApiError("SVC_PAYLOAD_TOO_LARGE");
    try {
      if (declared !== null && Number(declared) <= SMALL_BODY_BYTES) return await request.text();
      return await readLarge(request.body);
    } catch (error) {
      if (error instanceof ApiError) throw error;
      // Hung up in the middle: there is nobody to tell.
      throw unreadable("The body did not arrive.");
    }
  };
}

/** Below it bodies are files of any type and size; their route streams them. */
export const UPLOAD_PATH = "/v1/storage/";

/** Below these a body is an SDP offer, as WHIP and WHEP have it. */
const SDP_PATH = /^\/(?:whip|whep)\//;

const rawBodies = new WeakMap<Request, string>();

/** The body's text as it arrived; what an idempotency key is compared by. */
export function rawBody(request: Request): string {
  return rawBodies.get(request) ?? "";
}

type BodyContext = { request: Request; path: string; body: unknown };

/** A route's last `transform`, behind its guard: whoever holds no credential gets 401 and learns nothing of the body. */
export const readBodies = (read: ReadBody) =>
  async function readBody(context: BodyContext): Promise<void> {
    context.body = await parseBody(read, context.request, context.path);
  };

/** JSON (for WHIP and WHEP: SDP as text) only, and bounded. */
async function parseBody(read: ReadBody, request: Request, path: string): Promise<unknown> {
  const text = await read(request);
  rawBodies.set(request, text);
  const contentType = request.headers.get("content-type") ?? "";
  if (SDP_PATH.test(path) && request.method === "POST") {
    if (/^application\/sdp\s*(?:;|$)/i.test(contentType)) return text;
    throw new ApiError("SVC_UNSUPPORTED_MEDIA_TYPE", "Send the offer as application/sdp.");
  }
  // An empty body is an empty object: every field may be optional, and validation names those that are not.
  if (text === "") return {};
  if (!/^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(contentType)) {
    throw new ApiError("SVC_UNSUPPORTED_MEDIA_TYPE");
  }
  const problem = jsonProblem(text);
  if (problem !== null) throw unreadable(`The body ${problem}.`);
  try {
    return withoutInheritedNames(JSON.parse(text));
  } catch {
    throw unreadable("The body is not valid JSON.");
  }
}

/**
 * `constructor`, `toString` and their like are unknown fields, but every object has them: the framework, which drops
 * unknown fields, finds these in its own schema and refuses the body for them.
 */
function withoutInheritedNames(body: unknown): unknown {
  // A list has no fields, but a mebibyte of it has 350,000 names.
  if (typeof body !== "object" || body === null || Array.isArray(body)) return body;
  for (const name of Object.keys(body)) if (name in Object.prototype) Reflect.deleteProperty(body, name);
  return body;
}

/**
 * A route's `beforeHandle`: the framework drops unknown fields; where they are to be refused, look at the body as it arrived,
 * or at one object `within` it.
 */
export function refuseUnknownFields(
  allowed: readonly string[],
  within?: string,
): (context: { request: Request }) => void {
  return ({ request }) => {
    const body: unknown = JSON.parse(rawBody(request) || "{}");
    const sent = within === undefined ? body : (body as Record<string, unknown> | null)?.[within];
    const unknown = Object.keys(sent ?? {})
      .filter((field) => !allowed.includes(field))
      .map((field) => (within === undefined ? field : `${within}.${field}`))
      .slice(0, MAX_LISTED);
    if (unknown.length === 0) return;
    const message = within === undefined ? "unknown field" : `unknown; the names are ${allowed.join(", ")}`;
    const details = unknown.map((field) => ({ field, message }));
    throw new ApiError("SVC_VALIDATION_FAILED", `Unknown field: ${unknown.join(", ")}`, { details });
  };
}

const MAX_LISTED = 64;
