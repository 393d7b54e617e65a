import { CLOSE_CODES, type CloseCode } from "../../protocol/close-codes.ts";
import { ApiError, type ErrorCode, frameCode } from "../../protocol/errors.ts";
import { MediaError } from "../../protocol/media-node.ts";
import type { SIGNALING_ERROR_CODES } from "../../protocol/signaling.ts";

export type FrameErrorCode = (typeof SIGNALING_ERROR_CODES)[number];

/** A request that gets an `error`; the socket stays open. */
export class FrameError extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly retryAfterSeconds?: number,
  ) {
    super(message);
    this.name = "FrameError";
  }
}

export function frameError(code: FrameErrorCode, message: string): FrameError {
  return new FrameError(code, message);
}

/** A join that fails for good: an `error`, then the close with its typed code. */
export class Refusal extends FrameError {
  constructor(
    code: string,
    message: string,
    readonly closeCode: CloseCode,
    retryAfterSeconds?: number,
  ) {
    super(code, message, retryAfterSeconds);
    this.name = "Refusal";
  }
}

export function refuse(code: ErrorCode, closeCode: CloseCode, retryAfterSeconds?: number): Refusal {
  return new Refusal(frameCode(code), new ApiError(code).message, closeCode, retryAfterSeconds);
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

/** How a failure of another layer ends a join. */
export function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  if (error instanceof ApiError) return refuse(error.code, CLOSE_CODE_OF[error.code] ?? CLOSE_CODES.restart);
  if (error instanceof MediaError) return refuse("SVC_RTC_SERVER_UNREACHABLE", CLOSE_CODES.noCapacity);
  return refuse("SVC_INTERNAL_ERROR", CLOSE_CODES.restart);
}

/** How a failure of another layer answers a request; null is unforeseen, and belongs into the log. */
export function frameErrorOf(error: unknown): FrameError | null {
  if (error instanceof FrameError) return error;
  if (error instanceof MediaError) return new FrameError(error.code, error.message);
  if (error instanceof ApiError) return new FrameError(frameCode(error.code), error.message);
  return null;
}
