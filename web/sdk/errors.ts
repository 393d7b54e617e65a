import { CHAT_CLOSE_CODES, CLOSE_CODES } from "../../src/protocol/close-codes.ts";

/** What went wrong, in a form that code can switch on; `message` says what to do about it. */
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

/** Everything that the SDK throws or tells of as an error. */
export class StoaError extends Error {
  /** When the server will listen again, where it has said so. */
  readonly retryAfterSeconds?: number;

  constructor(
    /** As the server says it, without prefix (`RATE_LIMITED`), or a code of the client's own. */
    readonly code: string,
    /** What went wrong, to switch on. */
    readonly reason: ErrorReason,
    message: string,
    options: { cause?: unknown; retryAfterSeconds?: number } = {},
  ) {
    super(message, { cause: options.cause });
    this.name = "StoaError";
    this.retryAfterSeconds = options.retryAfterSeconds;
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

/** An error frame, or the body of a refused REST call. */
export function serverError({ code = "UNKNOWN", message, retryAfterSeconds }: ServerError): StoaError {
  const bare = code.replace(/^SVC_/, "");
  const reason = REASONS[bare] ?? (bare.endsWith("_NOT_FOUND") ? "not-found" : "server");
  return new StoaError(bare, reason, message ?? bare, { retryAfterSeconds });
}

/**
 * Why a socket was closed, in words; `said` is the error frame that came before the close. Null: nothing is wrong that
 * coming back would not cure.
 */
export function closeError(code: number, said?: ServerError): StoaError | null {
  const [reason, message] = CLOSE_REASONS[code] ?? [];
  if (said) {
    const told = serverError(said);
    const { retryAfterSeconds } = told;
    // Of a token the server says only that it is not valid; here it is known who has to do what.
    const words = reason?.startsWith("token-") ? message : undefined;
    return new StoaError(told.code, reason ?? told.reason, words ?? told.message, { retryAfterSeconds });
  }
  return reason === undefined ? null : new StoaError(`CLOSED_${code}`, reason, message ?? "");
}

/** Lost with the connection rather than refused: the same again may work. */
export function isLost(error: unknown): boolean {
  const { reason } = error as Partial<StoaError>;
  return reason === "closed" || reason === "network" || reason === "timeout";
}

const CLOSE_REASONS: Record<number, [ErrorReason, string]> = {
  [CHAT_CLOSE_CODES.frameTooLarge]: ["invalid", "A frame was larger than the server allows."],
  [CLOSE_CODES.malformed]: ["invalid", "The server could not read what was sent."],
  [CLOSE_CODES.unauthorized]: ["token-invalid", "The token is wrong or was revoked. Ask your backend for a new one."],
  [CLOSE_CODES.forbidden]: [
    "not-allowed",
    "The token or this page's origin is not allowed here. Check the project's allowed origins.",
  ],
  [CLOSE_CODES.roomNotFound]: [
    "not-found",
    "There is no such room. It may never have existed, or was closed and removed.",
  ],
  [CLOSE_CODES.replaced]: ["replaced", "The same identity joined from somewhere else."],
  [CLOSE_CODES.roomClosed]: ["room-closed", "The room was closed, or you were removed from it."],
  [CLOSE_CODES.frameTooLarge]: ["invalid", "A frame was larger than the server allows."],
  [CLOSE_CODES.roomFull]: ["room-full", "The room has as many participants as it can hold."],
  [CLOSE_CODES.tooManyAttempts]: [
    "rate-limited",
    "Too many connections were opened. They are allowed again in a minute.",
  ],
  [CLOSE_CODES.tokenExpired]: ["token-expired", "The token has expired. Pass a tokenProvider to renew it by itself."],
  [CLOSE_CODES.noCapacity]: ["no-capacity", "No media server has room for another call right now."],
};
