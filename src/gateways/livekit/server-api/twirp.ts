import type { Message, MessageType } from "@bufbuild/protobuf";
import { Refused, refusedBy } from "../refused.ts";
import type { LivekitToken } from "../tokens/claims.ts";

/** Twirp's own words for what went wrong, and the status that goes with each. */
const STATUSES = {
  bad_route: 404,
  malformed: 400,
  invalid_argument: 400,
  unauthenticated: 401,
  permission_denied: 403,
  not_found: 404,
  already_exists: 409,
  failed_precondition: 412,
  resource_exhausted: 429,
  unimplemented: 501,
  unavailable: 503,
  internal: 500,
} as const;

type TwirpCode = keyof typeof STATUSES;

export class TwirpError extends Error {
  constructor(
    readonly code: TwirpCode,
    message: string,
  ) {
    super(message);
    this.name = "TwirpError";
  }

  get status(): number {
    return STATUSES[this.code];
  }
}

const BY_STATUS: Record<number, TwirpCode> = {
  400: "invalid_argument",
  401: "unauthenticated",
  402: "resource_exhausted",
  403: "permission_denied",
  404: "not_found",
  409: "failed_precondition",
  429: "resource_exhausted",
  503: "unavailable",
};

/** Null is unforeseen. */
export function asTwirp(error: unknown): TwirpError | null {
  if (error instanceof TwirpError) return error;
  const refused = error instanceof Refused ? error : refusedBy(error);
  return refused && new TwirpError(BY_STATUS[refused.status] ?? "internal", refused.message);
}

/** A server's token administers the room that it names, and none but it. */
export function requireRoomAdmin({ grant }: LivekitToken, name: string): void {
  if (grant.roomAdmin === true && grant.room === name) return;
  throw new TwirpError("permission_denied", `the token has no roomAdmin grant for the room ${name}`);
}

/** A call in either of Twirp's forms: its body in, the body of the answer out. */
export type Method = (token: LivekitToken, body: Uint8Array, form: "json" | "protobuf") => Promise<Uint8Array | string>;

export function defineMethod<Request extends Message<Request>, Response extends Message<Response>>(
  type: MessageType<Request>,
  serve: (token: LivekitToken, request: Request) => Promise<Response>,
): Method {
  return async (token, body, form) => {
    const answer = await serve(token, readRequest(type, body, form));
    return form === "json" ? answer.toJsonString({ emitDefaultValues: true }) : answer.toBinary();
  };
}

function readRequest<Request extends Message<Request>>(
  type: MessageType<Request>,
  body: Uint8Array,
  form: "json" | "protobuf",
): Request {
  try {
    if (form === "protobuf") return type.fromBinary(body);
    return type.fromJsonString(Buffer.from(body).toString() || "{}", { ignoreUnknownFields: true });
  } catch {
    throw new TwirpError("malformed", "the request cannot be read");
  }
}
