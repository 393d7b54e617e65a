import { ApiError } from "../../protocol/errors.ts";

/** Why somebody is not let in, as HTTP and LiveKit's clients say it: a status and a plain sentence. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly retryAfterSeconds?: number,
  ) {
    super(message);
    this.name = "Refused";
  }
}

export class TokenRefused extends Refused {
  constructor(message: string) {
    super(401, message);
    this.name = "TokenRefused";
  }
}

/** What a client without a token is told; `stoa doctor` knows the door by it. */
export const NO_TOKEN = "no access_token was given";

/** What the catalogue of errors refuses, in the form that these clients read. */
export function refusedBy(error: unknown): Refused | null {
  if (error instanceof Refused) return error;
  if (!(error instanceof ApiError)) return null;
  const details = error.extra.details?.map(({ field, message }) => `${field} ${message}`).join(", ");
  return new Refused(error.status, details ?? error.message, error.extra.retryAfterSeconds);
}

export function refusing<T>(check: () => T): T {
  try {
    return check();
  } catch (error) {
    const refused = refusedBy(error);
    throw refused ? new TokenRefused(refused.message) : error;
  }
}
