import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { ApiError, invalid } from "../../protocol/errors.ts";
import type { AccountDeps } from "./account.service.ts";
import type { Client } from "./session.service.ts";
import type { UserRow } from "./user.store.ts";

export type RecoveryService = ReturnType<typeof recoveryService>;

/** Verifying an e-mail address and changing a password. Passwords are hashed outside of units of work. */
export function recoveryService(
  { write }: Runtime,
  { users, sessions, oneTimeTokens, passwords, factors, mailer, mailTexts }: Omit<AccountDeps, "invitations">,
) {
  /** Revokes the links that would change the password again: an attacker may have one. */
  function replacePassword(
    unit: Unit,
    userId: string,
    change: { passwordHash: string; emailVerified?: true },
  ): UserRow {
    oneTimeTokens.revokeAll(unit, "reset-password", userId);
    return users.update(unit, userId, change);
  }

  return {
    /**
     * Anyone can register the e-mail address of another person with a password of their own. The owner, who follows the
     * link, may therefore choose a new password, which ends the other person's sessions. `passwordKept` in the response
     * tells whether the old password stays valid.
     */
    async verifyEmail({ token, password }: { token: string; password?: string }, client: Client) {
      oneTimeTokens.requireValid("verify-email", token);
      const passwordHash = password === undefined ? null : await passwords.hash(password);
      const { user, started } = await write((unit) => {
        const userId = oneTimeTokens.redeem(unit, "verify-email", token);
        if (passwordHash !== null) sessions.endAll(unit, userId);
        const user =
          passwordHash === null
            ? users.update(unit, userId, { emailVerified: true })
            : replacePassword(unit, userId, { passwordHash, emailVerified: true });
        return { user, started: sessions.start(unit, userId, client) };
      });
      return { ...(await sessions.signIn(user, started)), passwordKept: passwordHash === null };
    },

    /**
     * Looks up the e-mail address after the response, so that the timing of the response does not reveal whether it is
     * known.
     */
    resendVerification(email: string): void {
      mailer.post(async () => {
        const user = users.findByEmail(email);
        if (!user || user.emailVerified) return null;
        const token = await write((unit) => oneTimeTokens.issue(unit, "verify-email", user.id));
        return mailTexts.verifyEmail(user.email, token);
      });
    },

    requestPasswordReset(email: string): void {
      mailer.post(async () => {
        const user = users.findByEmail(email);
        if (!user) return null;
        const token = await write((unit) => oneTimeTokens.issue(unit, "reset-password", user.id));
        return mailTexts.resetPassword(user.email, token);
      });
    },

    /** The link also verifies the e-mail address. All sessions of the account end. */
    async confirmPasswordReset(input: { token: string; password: string }, client: Client) {
      oneTimeTokens.requireValid("reset-password", input.token);
      const passwordHash = await passwords.hash(input.password);
      const { user, started } = await write((unit) => {
        const userId = oneTimeTokens.redeem(unit, "reset-password", input.token);
        sessions.endAll(unit, userId);
        const user = replacePassword(unit, userId, { passwordHash, emailVerified: true });
        return { user, started: sessions.start(unit, userId, client) };
      });
      return sessions.signIn(user, started);
    },

    /** Ends every other session, and replaces this one: the old password, or a token, may have been stolen. */
    async changePassword(
      caller: { userId: string; sessionId: string },
      input: { currentPassword: string; newPassword: string },
    ) {
      factors.spendPasswordAttempt(caller.userId);
      const current = users.get(caller.userId).passwordHash;
      if (!(await passwords.verify(input.currentPassword, current))) {
        throw invalid("currentPassword", "is not the current password");
      }
      const passwordHash = await passwords.hash(input.newPassword);
      const { user, ...started } = await write((unit) => {
        replacePassword(unit, caller.userId, { passwordHash });
        const replaced = sessions.replace(unit, caller.sessionId, false);
        sessions.endAll(unit, caller.userId, replaced.session.id);
        return replaced;
      });
      return sessions.signIn(user, started);
    },

    /**
     * Called by the command line. All sessions of the account end, and its second factors are removed: the user may
     * have lost them.
     */
    async setPassword(email: string, password: string): Promise<UserRow> {
      const passwordHash = await passwords.hash(password);
      return write((unit) => {
        const user = users.findByEmail(email);
        if (!user) throw new ApiError("SVC_USER_NOT_FOUND");
        sessions.endAll(unit, user.id);
        factors.removeAll(unit, user.id);
        return replacePassword(unit, user.id, { passwordHash, emailVerified: true });
      });
    },
  };
}
