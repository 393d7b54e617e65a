import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { ApiError, invalid } from "../../protocol/errors.ts";
import type { AccountDeps } from "./account.service.ts";
import type { Client } from "./sessions/session.service.ts";
import type { UserRow } from "./user.table.ts";

export type RecoveryService = ReturnType<typeof recoveryService>;

/** Proving an address and changing a password. Async for the same reason as signing in: hashing is no unit of work. */
export function recoveryService(
  { write }: Runtime,
  { users, sessions, oneTimeTokens, passwords, mailer, mailTexts }: Omit<AccountDeps, "invitations">,
) {
  /** The one way to a new password: whoever else holds a link to another one, holds it for nothing. */
  function replacePassword(
    unit: Unit,
    userId: string,
    change: { passwordHash: string; emailVerified?: true },
  ): UserRow {
    oneTimeTokens.voidAll(unit, "reset-password", userId);
    return users.update(unit, userId, change);
  }

  return {
    /**
     * Anybody can register somebody else's address, with a password of their own. Whoever follows the link may therefore
     * choose the password anew, which ends what was begun with the other one; if they do not, the answer says whose it is.
     */
    async verifyEmail({ token, password }: { token: string; password?: string }, client: Client) {
      oneTimeTokens.holderOf("verify-email", token);
      const passwordHash = password === undefined ? null : await passwords.hash(password);
      const { user, started } = await write((unit) => {
        const userId = oneTimeTokens.redeem(unit, "verify-email", token);
        if (passwordHash !== null) sessions.endAllOf(unit, userId);
        const user =
          passwordHash === null
            ? users.update(unit, userId, { emailVerified: true })
            : replacePassword(unit, userId, { passwordHash, emailVerified: true });
        return { user, started: sessions.start(unit, userId, client) };
      });
      return { ...(await sessions.open(user, started)), passwordKept: passwordHash === null };
    },

    /** Says nothing, and takes no time, whether the address is known or not: all of it happens after the answer. */
    resendVerification(email: string): void {
      mailer.post(async () => {
        const user = users.findByEmail(email);
        if (!user || user.emailVerified) return null;
        return mailTexts.verifyEmail(
          user.email,
          await write((unit) => oneTimeTokens.issue(unit, "verify-email", user.id)),
        );
      });
    },

    requestPasswordReset(email: string): void {
      mailer.post(async () => {
        const user = users.findByEmail(email);
        if (!user) return null;
        return mailTexts.resetPassword(
          user.email,
          await write((unit) => oneTimeTokens.issue(unit, "reset-password", user.id)),
        );
      });
    },

    /** The link proves the address as well. Whoever was signed in is signed out. */
    async confirmPasswordReset(input: { token: string; password: string }, client: Client) {
      oneTimeTokens.holderOf("reset-password", input.token);
      const passwordHash = await passwords.hash(input.password);
      const { user, started } = await write((unit) => {
        const userId = oneTimeTokens.redeem(unit, "reset-password", input.token);
        sessions.endAllOf(unit, userId);
        const user = replacePassword(unit, userId, { passwordHash, emailVerified: true });
        return { user, started: sessions.start(unit, userId, client) };
      });
      return sessions.open(user, started);
    },

    /** Ends every other session: whoever changes a password may have been robbed of the old one. */
    async changePassword(
      caller: { userId: string; sessionId: string },
      input: { currentPassword: string; newPassword: string },
    ): Promise<void> {
      const { passwordHash: held } = users.get(caller.userId);
      const matches = await passwords.verify(input.currentPassword, held);
      if (!matches) throw invalid("currentPassword", "is not the current password");
      const passwordHash = await passwords.hash(input.newPassword);
      await write((unit) => {
        replacePassword(unit, caller.userId, { passwordHash });
        sessions.endAllOf(unit, caller.userId, caller.sessionId);
      });
    },

    /** From the command line; ends every session of the account. */
    async setPassword(email: string, password: string): Promise<UserRow> {
      const passwordHash = await passwords.hash(password);
      return write((unit) => {
        const user = users.findByEmail(email);
        if (!user) throw new ApiError("SVC_USER_NOT_FOUND");
        sessions.endAllOf(unit, user.id);
        return replacePassword(unit, user.id, { passwordHash, emailVerified: true });
      });
    },
  };
}
