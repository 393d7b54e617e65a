import type { ErrorCode } from "../../protocol/errors.ts";
import type { Timers } from "../timers.ts";

export const MAX_BODY_BYTES = 1024 * 1024;
const SMALL_BYTES = 16 * 1024;
/** What the larger bodies under way may hold together, whoever sends them. */
const SHARED_BYTES = 64 * 1024 * 1024;
const LARGE_WITHIN_MS = 30_000;

/** A body that could not be read. Judged after the credential, so that a stranger gets 401 and learns nothing else. */
export class UnreadableBody {
  constructor(
    readonly code: ErrorCode,
    readonly problem?: string,
  ) {}
}

export type ReadBody = (request: Request) => Promise<string | UnreadableBody>;

/**
 * Bodies are read before anybody knows whose they are. Small ones always are; larger ones share a bound and have to
 * arrive in time, or strangers who never finish theirs would fill the memory with a mebibyte for every connection.
 */
export function createBodyReader({ after }: Timers, sharedBytes = SHARED_BYTES): ReadBody {
  let held = 0;

  async function readLarge(body: ReadableStream<Uint8Array>): Promise<string | UnreadableBody> {
    const reader = body.getReader();
    const chunks: Uint8Array[] = [];
    let size = 0;
    const late = Promise.withResolvers<null>();
    const cancelLate = after(LARGE_WITHIN_MS, () => late.resolve(null));
    try {
      for (;;) {
        const part = await Promise.race([reader.read(), late.promise]);
        if (part === null) return new UnreadableBody("SVC_VALIDATION_FAILED", "The body did not arrive in time.");
        if (part.done) return Buffer.concat(chunks).toString();
        chunks.push(part.value);
        size += part.value.byteLength;
        held += part.value.byteLength;
        if (size > MAX_BODY_BYTES) return new UnreadableBody("SVC_PAYLOAD_TOO_LARGE");
        if (size > SMALL_BYTES && held > sharedBytes) return new UnreadableBody("SVC_OVERLOADED");
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
    if (declared !== null && Number(declared) > MAX_BODY_BYTES) return new UnreadableBody("SVC_PAYLOAD_TOO_LARGE");
    try {
      if (declared !== null && Number(declared) <= SMALL_BYTES) return await request.text();
      return await readLarge(request.body);
    } catch {
      // Hung up in the middle: there is nobody to tell.
      return new UnreadableBody("SVC_VALIDATION_FAILED", "The body did not arrive.");
    }
  };
}
