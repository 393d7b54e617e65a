import { randomBytes } from "node:crypto";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { ApiError } from "../../protocol/errors.ts";
import { oneTimeTokenStore } from "./one-time-token.store.ts";
import type { OneTimePurpose } from "./one-time-token.table.ts";

const LIFETIME_MS = 3_600_000;

export type OneTimeTokenService = ReturnType<typeof oneTimeTokenService>;

/** The secrets in mails: 256 bits, of which only a digest is kept. */
export function oneTimeTokenService({ db, keyring, now }: Runtime) {
  const store = oneTimeTokenStore(db);

  function holderOf(purpose: OneTimePurpose, token: string): string {
    const row = store.find(keyring.digest("one-time", token));
    if (!row || row.purpose !== purpose || row.expiresAt <= now()) throw new ApiError("SVC_INVALID_ONE_TIME_TOKEN");
    return row.userId;
  }

  return {
    issue(unit: Unit, purpose: OneTimePurpose, userId: string): string {
      const token = randomBytes(32).toString("base64url");
      store.deleteExpired(unit, now());
      store.insert(unit, {
        digest: keyring.digest("one-time", token),
        purpose,
        userId,
        expiresAt: now() + LIFETIME_MS,
      });
      return token;
    },

    /** Whose it is, without using it up: asked before anything costly is done for it. */
    holderOf,

    /** A password that changes takes the links with it that would change it again. */
    voidAll: (unit: Unit, purpose: OneTimePurpose, userId: string) => store.deleteOf(unit, userId, purpose),

    /** Uses it up, together with every other link of its kind to that user. */
    redeem(unit: Unit, purpose: OneTimePurpose, token: string): string {
      const userId = holderOf(purpose, token);
      store.deleteOf(unit, userId, purpose);
      return userId;
    },
  };
}
