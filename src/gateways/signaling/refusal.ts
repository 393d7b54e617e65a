import { FrameError, frameError } from "../../kernel/socket/frame-error.ts";
import { CLOSE_CODES, type CloseCode } from "../../protocol/close-codes.ts";
import { ApiError, type ErrorCode } from "../../protocol/errors.ts";
import { MediaError } from "../../protocol/media-node.ts";

/** Ends a socket with an `error` frame and a close code. */
export class Refusal extends FrameError {
  constructor(
    code: FrameError["code"],
    message: string,
    readonly closeCode: CloseCode,
    retryAfterSeconds?: number,
  ) {
    super(code, message, retryAfterSeconds);
    this.name = "Refusal";
  }
}

export function refuse(code: ErrorCode, closeCode: CloseCode, retryAfterSeconds?: number): Refusal {
  const error = frameError(code);
  return new Refusal(error.code, error.message, closeCode, retryAfterSeconds);
}

const CLOSE_CODE_OF: Partial<Record<ErrorCode, CloseCode>> = {
  SVC_AUTH_ERROR: CLOSE_CODES.unauthorized,
  SVC_TOKEN_REVOKED: CLOSE_CODES.unauthorized,
  SVC_TOKEN_EXPIRED: CLOSE_CODES.tokenExpired,
  SVC_ORIGIN_NOT_ALLOWED: CLOSE_CODES.forbidden,
  SVC_PERMISSION_DENIED: CLOSE_CODES.forbidden,
  SVC_ROOM_NOT_FOUND: CLOSE_CODES.roomNotFound,
  SVC_PROJECT_NOT_FOUND: CLOSE_CODES.roomNotFound,
  SVC_ROOM_CLOSED: CLOSE_CODES.roomClosed,
  SVC_NO_RTC_CAPACITY: CLOSE_CODES.noCapacity,
  SVC_RTC_SERVER_UNREACHABLE: CLOSE_CODES.noCapacity,
};

export function toRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  if (error instanceof ApiError) return refuse(error.code, CLOSE_CODE_OF[error.code] ?? CLOSE_CODES.restart);
  if (error instanceof MediaError) return refuse("SVC_RTC_SERVER_UNREACHABLE", CLOSE_CODES.noCapacity);
  return refuse("SVC_INTERNAL_ERROR", CLOSE_CODES.restart);
}
