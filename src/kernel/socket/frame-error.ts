import { ApiError, type ErrorCode, type FrameErrorCode, frameCode } from "../../protocol/errors.ts";
import { MediaError, type MediaErrorCode } from "../../protocol/media-node.ts";
import { storageFullError } from "../db/health.ts";

/** The error response to one frame of a WebSocket; the socket stays open. */
export class FrameError extends Error {
  constructor(
    readonly code: FrameErrorCode | MediaErrorCode,
    message: string,
    readonly retryAfterSeconds?: number,
  ) {
    super(message);
    this.name = "FrameError";
  }
}

/** Makes a frame error from a code of the API's errors. The frame has the code without its prefix. */
export function frameError(code: ErrorCode, message?: string, retryAfterSeconds?: number): FrameError {
  return new FrameError(frameCode(code), message ?? new ApiError(code).message, retryAfterSeconds);
}

/** Converts an error of the API or of a media node; null for an unexpected error, which the caller logs. */
export function frameErrorOf(error: unknown): FrameError | null {
  if (error instanceof FrameError) return error;
  if (error instanceof MediaError) return new FrameError(error.code, error.message);
  const known = error instanceof ApiError ? error : storageFullError(error);
  return known && frameError(known.code, known.message, known.extra.retryAfterSeconds);
}

type ErrorFrame = { type: "error"; id?: string; code: string; message: string; retryAfterSeconds?: number };

export function errorFrame({ code, message, retryAfterSeconds }: FrameError, id?: string): ErrorFrame {
  return {
    type: "error",
    ...(id === undefined ? {} : { id }),
    code,
    message,
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
  };
}
