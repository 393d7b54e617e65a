import { ApiError } from "../../protocol/errors.ts";

/** A rejection in the form that LiveKit's clients read: an HTTP status and a plain-text message. */
export class HttpRefusal extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly retryAfterSeconds?: number,
  ) {
    super(message);
    this.name = "HttpRefusal";
  }
}

export class TokenRefused extends HttpRefusal {
  constructor(message: string) {
    super(401, message);
    this.name = "TokenRefused";
  }
}

/** The response to a client without a token, by which `stoa doctor` recognises the gateway. */
export const NO_TOKEN = "no access_token was given";

/** Null for an unexpected error. */
export function httpRefusalOf(error: unknown): HttpRefusal | null {
  if (error instanceof HttpRefusal) return error;
  if (!(error instanceof ApiError)) return null;
  const details = error.extra.details?.map(({ field, message }) => `${field} ${message}`).join(", ");
  return new HttpRefusal(error.status, details ?? error.message, error.extra.retryAfterSeconds);
}

export function asTokenRefusal<T>(check: () => T): T {
  try {
    return check();
  } catch (error) {
    const refused = httpRefusalOf(error);
    throw refused ? new TokenRefused(refused.message) : error;
  }
}
