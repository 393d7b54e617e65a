import { CHAT_CLOSE_CODES, CLOSE_CODES } from "../../src/protocol/close-codes.ts";

/** The kind of a failure, for code to switch on; `message` explains what to do about it. */
export type ErrorReason =
  | "permission-denied"
  | "device-not-found"
  | "device-in-use"
  | "token-expired"
  | "token-invalid"
  | "not-allowed"
  | "not-found"
  | "room-closed"
  | "room-full"
  | "removed"
  | "replaced"
  | "rate-limited"
  | "no-capacity"
  | "udp-blocked"
  | "network"
  | "timeout"
  | "cancelled"
  | "closed"
  | "unsupported"
  | "invalid"
  | "server";

/** The error that the SDK throws, rejects with and emits. */
export class StoaError extends Error {
  /** The number of seconds to wait before the next attempt, if the server has named one. */
  readonly retryAfterSeconds?: number;

  constructor(
    /** The server's error code without its prefix (`RATE_LIMITED`), or a code of the SDK. */
    readonly code: string,
    /** The kind of the failure, for code to switch on. */
    readonly reason: ErrorReason,
    message: string,
    options: { cause?: unknown; retryAfterSeconds?: number } = {},
  ) {
    super(message, { cause: options.cause });
    this.name = "StoaError";
    this.retryAfterSeconds = options.retryAfterSeconds;
  }

  /** Errors of the modules that are loaded on demand are instances too, although each has a copy of this class. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return (value as Error | null)?.name === "StoaError";
  }
}

const REASONS: Record<string, ErrorReason> = {
  AUTH_ERROR: "token-invalid",
  TOKEN_REVOKED: "token-invalid",
  TOKEN_EXPIRED: "token-expired",
  PERMISSION_DENIED: "not-allowed",
  ORIGIN_NOT_ALLOWED: "not-allowed",
  MUTED: "not-allowed",
  BANNED: "not-allowed",
  ROOM_CLOSED: "room-closed",
  ROOM_FULL: "room-full",
  RATE_LIMITED: "rate-limited",
  SLOW_MODE: "rate-limited",
  NO_RTC_CAPACITY: "no-capacity",
  VALIDATION_FAILED: "invalid",
  INVALID_MESSAGE: "invalid",
};

export type ServerError = { code?: string; message?: string; retryAfterSeconds?: number };

/** Converts an error frame or the body of a failed REST call. */
export function serverError({ code = "UNKNOWN", message, retryAfterSeconds }: ServerError): StoaError {
  const bare = code.replace(/^SVC_/, "");
  const reason = REASONS[bare] ?? (bare.endsWith("_NOT_FOUND") ? "not-found" : "server");
  return new StoaError(bare, reason, message ?? bare, { retryAfterSeconds });
}

/**
 * Explains a close code; `frame` is the error frame that preceded the close. Returns null for a close after which
 * reconnecting is enough.
 */
export function closeError(code: number, frame?: ServerError): StoaError | null {
  const [reason, message] = CLOSE_REASONS[code] ?? [];
  if (frame) {
    const sent = serverError(frame);
    const { retryAfterSeconds } = sent;
    // The server only says that a token is invalid; this message also says what to do.
    const explanation = reason?.startsWith("token-") ? message : undefined;
    return new StoaError(sent.code, reason ?? sent.reason, explanation ?? sent.message, { retryAfterSeconds });
  }
  return reason === undefined ? null : new StoaError(`CLOSED_${code}`, reason, message ?? "");
}

/** Whether a request was lost with the connection rather than refused, so that repeating it may work. */
export function isLost(error: unknown): boolean {
  const { reason } = error as Partial<StoaError>;
  return reason === "closed" || reason === "network" || reason === "timeout";
}

const CLOSE_REASONS: Record<number, [ErrorReason, string]> = {
  [CHAT_CLOSE_CODES.frameTooLarge]: ["invalid", "A frame was larger than the server allows."],
  [CLOSE_CODES.malformed]: ["invalid", "The server could not parse a frame."],
  [CLOSE_CODES.unauthorized]: ["token-invalid", "The token is wrong or was revoked. Ask your backend for a new one."],
  [CLOSE_CODES.forbidden]: [
    "not-allowed",
    "The token or this page's origin is not allowed here. Check the project's allowed origins.",
  ],
  [CLOSE_CODES.roomNotFound]: ["not-found", "The room does not exist, or it was closed and removed."],
  [CLOSE_CODES.replaced]: ["replaced", "You joined this room in another tab or on another device."],
  [CLOSE_CODES.roomClosed]: ["room-closed", "You were removed from the room, or it was closed."],
  [CLOSE_CODES.frameTooLarge]: ["invalid", "A frame was larger than the server allows."],
  [CLOSE_CODES.roomFull]: ["room-full", "The room is full."],
  [CLOSE_CODES.tooManyAttempts]: ["rate-limited", "Too many connections were opened. Try again in a minute."],
  [CLOSE_CODES.tokenExpired]: [
    "token-expired",
    "The token has expired. Pass a tokenProvider to renew it automatically.",
  ],
  [CLOSE_CODES.noCapacity]: ["no-capacity", "No media server has capacity for another call."],
};

/** The error for a server that does not respond, or that the browser does not allow the page to contact. */
export function unreachable(url: string, cause?: unknown): StoaError {
  const { hostname } = new URL(url);
  if (!isPrivate(hostname) || typeof location === "undefined" || isPrivate(location.hostname)) {
    return new StoaError("UNREACHABLE", "network", "The server cannot be reached.", { cause });
  }
  return new StoaError(
    "PRIVATE_ADDRESS",
    "network",
    `${hostname} is an address of a private network, but this page comes from a public one: browsers ask for permission or refuse before such a page may connect. Allow this site to access devices on the local network, open the page from that network, or give the server a public address. If access is allowed already, the server cannot be reached.`,
    { cause },
  );
}

/** Loopback, link-local and private ranges, and the names that resolve to them. */
const PRIVATE_NAMES = /(^|\.)(localhost|local|internal|home\.arpa)$/;
const PRIVATE_IPV4 = /^(127|10|192\.168|169\.254|172\.(1[6-9]|2\d|3[01])|100\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7]))\./;
const PRIVATE_IPV6 = /^\[(::1\]|f[cd]|fe[89ab])/;

function isPrivate(hostname: string): boolean {
  return [PRIVATE_NAMES, PRIVATE_IPV4, PRIVATE_IPV6].some((range) => range.test(hostname));
}
