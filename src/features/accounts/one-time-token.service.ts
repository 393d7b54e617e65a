import { randomBytes } from "node:crypto";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { ApiError } from "../../protocol/errors.ts";
import { type OneTimePurpose, oneTimeTokenStore } from "./one-time-token.store.ts";

const LIFETIME_MS = 3_600_000;

export type OneTimeTokenService = ReturnType<typeof oneTimeTokenService>;

/** The secrets in the links of mails. Only their digests are stored. */
export function oneTimeTokenService({ db, keyring, now }: Runtime) {
  const store = oneTimeTokenStore(db);

  function userIdOf(purpose: OneTimePurpose, token: string): string {
    const [row] = keyring.acceptedDigests("one-time", token).flatMap((digest) => store.find(digest) ?? []);
    if (!row || row.purpose !== purpose || row.expiresAt <= now()) throw new ApiError("SVC_INVALID_ONE_TIME_TOKEN");
    return row.userId;
  }

  return {
    issue(unit: Unit, purpose: OneTimePurpose, userId: string): string {
      const token = randomBytes(32).toString("base64url");
      const digest = keyring.digest("one-time", token);
      store.deleteExpired(unit, now());
      store.insert(unit, { digest, purpose, userId, expiresAt: now() + LIFETIME_MS });
      return token;
    },

    /** Throws unless the token is valid, without redeeming it: callers do this before a costly password hash. */
    requireValid: (purpose: OneTimePurpose, token: string) => void userIdOf(purpose, token),

    revokeAll: (unit: Unit, purpose: OneTimePurpose, userId: string) => store.deleteOf(unit, userId, purpose),

    /** Invalidates the token and the user's other tokens for the same purpose. */
    redeem(unit: Unit, purpose: OneTimePurpose, token: string): string {
      const userId = userIdOf(purpose, token);
      store.deleteOf(unit, userId, purpose);
      return userId;
    },
  };
}
