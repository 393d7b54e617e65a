import { Message, type MessageType } from "@bufbuild/protobuf";
import type { TokenPagination } from "@livekit/protocol";
import { Elysia } from "elysia";
import type { Author } from "../../../kernel/author.ts";
import { bearerOf } from "../../../kernel/http/bearer.ts";
import { authorOfKey } from "../../../kernel/http/callers.ts";
import type { Http } from "../../../kernel/http/http.ts";
import type { Log } from "../../../kernel/log.ts";
import { foreignName } from "../../../protocol/ids.ts";
import { decodeBinary, decodeJson } from "../message-reader.ts";
import { HttpRefusal, httpRefusalOf, TokenRefused } from "../refusals.ts";
import { readBody } from "../request-body.ts";
import { type LivekitToken, NAME_RULE } from "../tokens.ts";

type TwirpDeps = {
  readToken: (token: string) => Promise<LivekitToken>;
  /** Throws for the token of a participant that was removed from its room or erased. */
  requireNotRemoved: (token: LivekitToken) => void;
  services: Record<string, Record<string, Method>>;
  log: Log;
};

const MAX_BODY_BYTES = 128 * 1_024;
const FORMS: Record<string, "json" | "protobuf"> = { "application/json": "json", "application/protobuf": "protobuf" };

/** LiveKit's server API, in Twirp's JSON and protobuf forms. */
export const twirpRoutes = ({ infoOf }: Http, { readToken, requireNotRemoved, services, log }: TwirpDeps) =>
  new Elysia().post(
    "/twirp/:service/:method",
    async ({ request, params, set }) => {
      try {
        // This call rejects invalid requests, such as those with a wrong Host header.
        const info = infoOf(request);
        const type = (request.headers.get("content-type") ?? "").split(";")[0]?.trim() ?? "";
        const form = FORMS[type];
        if (!form) throw new TwirpError("bad_route", "content-type must be application/json or application/protobuf");
        const bearer = bearerOf(request);
        if (bearer === null) throw new TokenRefused("no token was given");
        const token = await readToken(bearer);
        const methods = Object.hasOwn(services, params.service) ? services[params.service] : undefined;
        const method = methods && Object.hasOwn(methods, params.method) ? methods[params.method] : undefined;
        if (!method) throw new TwirpError("unimplemented", `${params.service}/${params.method} is not served here`);
        requireSomeGrant(token);
        requireNotRemoved(token);
        const body = await readBody(request, MAX_BODY_BYTES, tooLarge);
        // The participant may have been removed while the body was being sent.
        requireNotRemoved(token);
        const call = { ...token, publicUrl: info.publicUrl, author: authorOfKey({ caller: token.key, info }) };
        const answer = await method(call, body, form);
        set.headers["content-type"] = type;
        return typeof answer === "string"
          ? answer
          : new Response(new Uint8Array(answer), { headers: { "content-type": type } });
      } catch (error) {
        const known = asTwirp(error);
        if (!known) log.error({ err: error, method: params.method }, "livekit: server API request failed");
        const { status, code, message } = known ?? new TwirpError("internal", "the server could not do this");
        set.status = status;
        set.headers["content-type"] = "application/json";
        return JSON.stringify({ code, msg: message });
      }
    },
    { detail: { hide: true } },
  );

/**
 * Participants' tokens are rejected before the body is read: there are many of them, and no rate limit applies here.
 */
function requireSomeGrant({ grant }: LivekitToken): void {
  const { roomAdmin, roomList, roomCreate, roomRecord, ingressAdmin } = grant;
  if ([roomAdmin, roomList, roomCreate, roomRecord, ingressAdmin].includes(true)) return;
  throw new TwirpError("permission_denied", "the token has no grant for the server API");
}

const tooLarge = () => invalidArgument(`a body has at most ${MAX_BODY_BYTES} bytes`);

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
  canceled: 408,
  unknown: 500,
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

export const notServed = (what: string) => new TwirpError("unimplemented", `${what}: not served here`);

/** Rejects fields that are not read, so that no caller relies on them. Fields with their default are as if not sent. */
export function requireNotSet(fields: Record<string, unknown>): void {
  const given = Object.entries(fields).filter(([, value]) => !isDefault(value));
  if (given.length > 0) throw notServed(given.map(([name]) => name).join(", "));
}

const isDefault = (value: unknown): boolean =>
  value === undefined ||
  value === "" ||
  value === false ||
  value === 0 ||
  (typeof value === "object" && value !== null && !(value instanceof Message) && Object.keys(value).length === 0);

export const invalidArgument = (message: string) => new TwirpError("invalid_argument", message);

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

/** Null for an unexpected error. */
function asTwirp(error: unknown): TwirpError | null {
  if (error instanceof TwirpError) return error;
  const refused = error instanceof HttpRefusal ? error : httpRefusalOf(error);
  return refused && new TwirpError(BY_STATUS[refused.status] ?? "internal", refused.message);
}

export function requireFirstPage(pageToken: TokenPagination | undefined): void {
  if (pageToken && pageToken.token !== "") throw invalidArgument("pageToken: there is one page");
}

/** The name in the form that rooms have. */
export function requireName(name: string): string {
  const known = foreignName(name);
  if (known === null) throw invalidArgument(`the room's name ${NAME_RULE}`);
  return known;
}

/** A token administers only the room that it names. */
export function requireRoomAdmin({ grant }: LivekitToken, name: string): void {
  if (grant.roomAdmin === true && name !== "" && foreignName(grant.room) === foreignName(name)) return;
  throw new TwirpError("permission_denied", `the token has no roomAdmin grant for the room ${name}`);
}

/** The token of a request to the server API, the author who signed it, and the URL at which clients reach this server. */
export type ServerCall = LivekitToken & { author: Author; publicUrl: string };

/** Parses the body of a request and returns the body of the response, in the same form. */
export type Method = (call: ServerCall, body: Uint8Array, form: "json" | "protobuf") => Promise<Uint8Array | string>;

export function defineMethod<Request extends Message<Request>, Response extends Message<Response>>(
  type: MessageType<Request>,
  serve: (call: ServerCall, request: Request) => Promise<Response>,
): Method {
  return async (call, body, form) => {
    const answer = await serve(call, readRequest(type, body, form));
    return form === "json" ? answer.toJsonString({ emitDefaultValues: true }) : answer.toBinary();
  };
}

function readRequest<Request extends Message<Request>>(
  type: MessageType<Request>,
  body: Uint8Array,
  form: "json" | "protobuf",
): Request {
  const decoded =
    form === "protobuf" ? decodeBinary(type, body) : decodeJson(type, Buffer.from(body).toString() || "{}");
  if (!decoded) throw new TwirpError("malformed", "the request cannot be read");
  return decoded.message;
}
