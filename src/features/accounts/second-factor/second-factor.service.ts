import { createHmac, randomBytes, randomInt } from "node:crypto";
import type { Unit } from "../../../kernel/db/writer.ts";
import { createRateLimiter } from "../../../kernel/http/rate-limit.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { iso } from "../../../kernel/time/clock.ts";
import { ApiError, invalid } from "../../../protocol/errors.ts";
import type { Passwords } from "../passwords.ts";
import type { UserService } from "../user.service.ts";
import type { UserRow } from "../user.store.ts";
import {
  authenticationOptions,
  registrationOptions,
  type Site,
  verifyAuthentication,
  verifyRegistration,
} from "./passkeys.ts";
import { type ChallengePurpose, type PasskeyRow, secondFactorStore, type TotpRow } from "./second-factor.store.ts";
import { acceptedStep, base32, totpStep, totpUri } from "./totp.ts";

const CHALLENGE_MS = 300_000;
const MAX_PASSKEYS = 20;
const RECOVERY_CODES = 10;
/** Letters and digits that cannot be mistaken for one another. */
const CODE_CHARACTERS = "23456789abcdefghjkmnpqrstuvwxyz";
/** An attacker who knows the password has a chance of one in a thousand to guess a code within a day. */
const ATTEMPTS = { count: 10, windowSeconds: 3600 };
const SIGN_IN_AGAIN =
  "This account has no password: sign out and in again, then change its second factors within ten minutes.";

export type SecondFactorService = ReturnType<typeof secondFactorService>;

/** What a mail to the owner of the account says has happened. */
export type FactorChange =
  | "A passkey was added"
  | "A passkey was removed"
  | "One-time codes were set up"
  | "One-time codes were removed"
  | "The recovery codes were replaced";

type SecondFactorDeps = {
  users: UserService;
  passwords: Passwords;
  notify: (userId: string, change: FactorChange) => void;
};

/** Passkeys, one-time codes and recovery codes of the dashboard's accounts. */
export function secondFactorService(runtime: Runtime, { users, passwords, notify }: SecondFactorDeps) {
  const { config, db, keyring, now, write } = runtime;
  const store = secondFactorStore(db);
  const attempts = createRateLimiter(now, ATTEMPTS.windowSeconds);

  /** Attempts are counted per account, because an attacker has many IP addresses. */
  function spendAttempt(userId: string): void {
    const { allowed, resetSeconds } = attempts.take("second factor", userId, ATTEMPTS.count);
    if (!allowed) throw new ApiError("SVC_RATE_LIMITED", undefined, { retryAfterSeconds: resetSeconds });
  }

  const passwordAttempts = (userId: string) => `password ${userId}`;

  const challengeText = (challenge: string) => `passkey ${challenge}`;

  async function keepChallenge(challenge: string, purpose: ChallengePurpose, userId: string | null): Promise<void> {
    await write((unit) => {
      store.expireChallenges(unit, now());
      store.insertChallenge(unit, {
        digest: keyring.digest("one-time", challengeText(challenge)),
        purpose,
        userId,
        expiresAt: now() + CHALLENGE_MS,
      });
    });
  }

  const takeChallenge = (purpose: ChallengePurpose, userId: string | null) => (challenge: string) =>
    write((unit) => {
      const digests = keyring.acceptedDigests("one-time", challengeText(challenge));
      const [row] = digests.flatMap((digest) => store.challenge(digest) ?? []);
      if (!row || row.purpose !== purpose || row.userId !== userId || row.expiresAt <= now()) return false;
      store.removeChallenge(unit, row.digest);
      return true;
    });

  const totpSecret = ({ userId, salt, confirmedAt }: TotpRow) => {
    const key = keyring.keyAt("totp", confirmedAt ?? now());
    return createHmac("sha256", key).update(`${userId} ${salt}`).digest().subarray(0, 20);
  };

  /** Null for a code that is wrong or was used before. */
  function stepOf(userId: string, code: string): number | null {
    const row = store.totp(userId);
    if (!row) return null;
    return acceptedStep(totpSecret(row), code.replaceAll(" ", ""), now(), row.lastStep);
  }

  const recoveryText = (userId: string, code: string) =>
    `recovery ${userId} ${code.toLowerCase().replaceAll(/[\s-]/g, "")}`;

  function newRecoveryCodes(unit: Unit, userId: string): string[] {
    store.removeCodes(unit, userId);
    return Array.from({ length: RECOVERY_CODES }, () => {
      const text = Array.from({ length: 10 }, () => CODE_CHARACTERS[randomInt(CODE_CHARACTERS.length)]).join("");
      store.insertCode(unit, { digest: keyring.digest("one-time", recoveryText(userId, text)), userId });
      return `${text.slice(0, 5)}-${text.slice(5)}`;
    });
  }

  /** The first factor of an account comes with recovery codes; null for any further factor. */
  const codesForFirst = (unit: Unit, userId: string, wasFirst: boolean) =>
    wasFirst ? newRecoveryCodes(unit, userId) : null;

  const notifyOf = (unit: Unit, userId: string, change: FactorChange) => unit.afterCommit(() => notify(userId, change));

  const present = ({ id, name, createdAt, lastUsedAt }: PasskeyRow) => ({
    id,
    name,
    createdAt: iso(createdAt),
    lastUsedAt: iso(lastUsedAt),
  });

  async function useSignedPasskey(site: Site, row: PasskeyRow, response: unknown, purpose: ChallengePurpose) {
    const expected = purpose === "sign-in" ? null : row.userId;
    const counter = await verifyAuthentication(site, row, response, takeChallenge(purpose, expected));
    await write((unit) => store.markUsed(unit, row.id, counter, now()));
  }

  return {
    has: store.has,
    /** The operator's setting. */
    isRequired: config.SECOND_FACTOR === "required",

    list: (userId: string) => ({
      passkeys: store.passkeysOf(userId).map(present),
      totp: (store.totp(userId)?.confirmedAt ?? null) !== null,
      recoveryCodesLeft: store.countCodes(userId),
      required: config.SECOND_FACTOR === "required",
    }),

    /**
     * A stolen session must not change how the account is protected. An account without a password signs in at its
     * provider again instead.
     */
    async requirePassword(user: UserRow, password: string | undefined, hasJustSignedIn: boolean): Promise<void> {
      if (user.passwordHash === null) {
        if (!hasJustSignedIn) throw new ApiError("SVC_PERMISSION_DENIED", SIGN_IN_AGAIN);
        return;
      }
      spendAttempt(passwordAttempts(user.id));
      if (!(await passwords.verify(password ?? "", user.passwordHash)))
        throw invalid("password", "is not your password");
    },

    /** A stolen session must not guess the password from many addresses. */
    spendPasswordAttempt: (userId: string) => spendAttempt(passwordAttempts(userId)),

    async startPasskey(site: Site, user: UserRow) {
      const known = store.passkeysOf(user.id);
      if (known.length >= MAX_PASSKEYS) throw new ApiError("SVC_LIMIT_REACHED");
      const options = await registrationOptions(site, user, known);
      await keepChallenge(options.challenge, "add", user.id);
      return options;
    },

    /** `requireSession` throws for a session that has ended meanwhile. */
    async addPasskey(site: Site, userId: string, name: string, response: unknown, requireSession: () => void) {
      const credential = await verifyRegistration(site, response, takeChallenge("add", userId));
      return write((unit) => {
        requireSession();
        if (store.passkey(credential.id)) throw new ApiError("SVC_CONFLICT", "This passkey is registered already.");
        const isFirst = !store.has(userId);
        const row: PasskeyRow = { ...credential, userId, name, createdAt: now(), lastUsedAt: null };
        store.insertPasskey(unit, row);
        notifyOf(unit, userId, "A passkey was added");
        return { passkey: present(row), recoveryCodes: codesForFirst(unit, userId, isFirst) };
      });
    },

    removePasskey(unit: Unit, userId: string, id: string): void {
      if (store.passkey(id)?.userId !== userId) throw new ApiError("SVC_PASSKEY_NOT_FOUND");
      store.removePasskey(unit, id);
      notifyOf(unit, userId, "A passkey was removed");
      if (!store.has(userId)) store.removeCodes(unit, userId);
    },

    /** The secret is shown until its first code confirms it. */
    startTotp(unit: Unit, user: UserRow) {
      if ((store.totp(user.id)?.confirmedAt ?? null) !== null) {
        throw new ApiError("SVC_CONFLICT", "One-time codes are set up already. Remove them first.");
      }
      const salt = randomBytes(16).toString("base64url");
      const row: TotpRow = { userId: user.id, salt, confirmedAt: null, lastStep: totpStep(now()) - 2 };
      store.saveTotp(unit, row);
      const secret = totpSecret(row);
      return { secret: base32(secret), uri: totpUri(secret, user.email) };
    },

    confirmTotp(unit: Unit, userId: string, code: string): { recoveryCodes: string[] | null } {
      const step = stepOf(userId, code);
      if (step === null) throw new ApiError("SVC_SECOND_FACTOR_INVALID");
      const isFirst = !store.has(userId);
      if ((store.totp(userId)?.confirmedAt ?? null) === null) notifyOf(unit, userId, "One-time codes were set up");
      store.acceptTotp(unit, userId, now(), step);
      return { recoveryCodes: codesForFirst(unit, userId, isFirst) };
    },

    removeTotp(unit: Unit, userId: string): void {
      if ((store.totp(userId)?.confirmedAt ?? null) !== null) notifyOf(unit, userId, "One-time codes were removed");
      store.removeTotp(unit, userId);
      if (!store.has(userId)) store.removeCodes(unit, userId);
    },

    replaceRecoveryCodes(unit: Unit, userId: string): string[] {
      if (!store.has(userId)) throw new ApiError("SVC_CONFLICT", "Set up a passkey or one-time codes first.");
      notifyOf(unit, userId, "The recovery codes were replaced");
      return newRecoveryCodes(unit, userId);
    },

    /** Called by the command line for an account whose owner has lost all factors. */
    removeAll(unit: Unit, userId: string): void {
      for (const { id } of store.passkeysOf(userId)) store.removePasskey(unit, id);
      store.removeTotp(unit, userId);
      store.removeCodes(unit, userId);
    },

    /** A code of the authenticator app, or a recovery code, which is used up. */
    verifyCode(userId: string, code: string): Promise<void> {
      spendAttempt(userId);
      return write((unit) => {
        const isConfirmed = (store.totp(userId)?.confirmedAt ?? null) !== null;
        const step = isConfirmed ? stepOf(userId, code) : null;
        if (step !== null) return store.acceptTotp(unit, userId, now(), step);
        const digests = keyring.acceptedDigests("one-time", recoveryText(userId, code));
        const digest = digests.find((one) => store.code(one)?.userId === userId);
        if (digest === undefined) throw new ApiError("SVC_SECOND_FACTOR_INVALID");
        store.removeCode(unit, digest);
      });
    },

    async startVerification(site: Site, userId: string) {
      const known = store.passkeysOf(userId);
      if (known.length === 0) throw new ApiError("SVC_PASSKEY_NOT_FOUND");
      const options = await authenticationOptions(site, known);
      await keepChallenge(options.challenge, "verify", userId);
      return options;
    },

    async verifyPasskey(site: Site, userId: string, response: unknown): Promise<void> {
      const row = store.passkey(idOf(response));
      if (row?.userId !== userId) throw new ApiError("SVC_SECOND_FACTOR_INVALID");
      await useSignedPasskey(site, row, response, "verify");
    },

    async startSignIn(site: Site) {
      const options = await authenticationOptions(site, []);
      await keepChallenge(options.challenge, "sign-in", null);
      return options;
    },

    /** A passkey counts as two factors: its owner unlocked it on the device. */
    async signIn(site: Site, response: unknown): Promise<UserRow> {
      const row = store.passkey(idOf(response));
      if (!row) throw new ApiError("SVC_SECOND_FACTOR_INVALID");
      await useSignedPasskey(site, row, response, "sign-in");
      return users.get(row.userId);
    },
  };
}

function idOf(response: unknown): string {
  const { id } = Object(response) as { id?: unknown };
  return typeof id === "string" ? id : "";
}
