import { ApiError, invalid } from "../protocol/errors.ts";
import type { Runtime } from "../runtime.ts";
import type { AccountDeps } from "./account.service.ts";
import type { Client } from "./sessions/session.service.ts";
import type { UserRow } from "./user.table.ts";

export type RecoveryService = ReturnType<typeof recoveryService>;

/** Proving an address and changing a password. Async for the same reason as signing in: hashing is no unit of work. */
export function recoveryService(
  { write }: Runtime,
  { users, sessions, oneTimeTokens, passwords, mailer, letters }: Omit<AccountDeps, "invitations">,
) {
  return {
    async verifyEmail(token: string, client: Client) {
      const { user, started } = await write(() => {
        const userId = oneTimeTokens.redeem("verify-email", token);
        const user = users.update(userId, { emailVerified: true });
        return { user, started: sessions.start(userId, client) };
      });
      return sessions.open(user, started);
    },

    /** Says nothing, and takes no time, whether the address is known or not: all of it happens after the answer. */
    resendVerification(email: string): void {
      mailer.post(async () => {
        const user = users.findByEmail(email);
        if (!user || user.emailVerified) return null;
        return letters.verifyEmail(user.email, await write(() => oneTimeTokens.issue("verify-email", user.id)));
      });
    },

    requestPasswordReset(email: string): void {
      mailer.post(async () => {
        const user = users.findByEmail(email);
        if (!user) return null;
        return letters.resetPassword(user.email, await write(() => oneTimeTokens.issue("reset-password", user.id)));
      });
    },

    /** The link proves the address as well. Whoever was signed in is signed out. */
    async confirmPasswordReset(input: { token: string; password: string }, client: Client) {
      oneTimeTokens.holderOf("reset-password", input.token);
      const passwordHash = await passwords.hash(input.password);
      const { user, started } = await write(() => {
        const userId = oneTimeTokens.redeem("reset-password", input.token);
        sessions.endAllOf(userId);
        const user = users.update(userId, { passwordHash, emailVerified: true });
        return { user, started: sessions.start(userId, client) };
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
      await write(() => {
        users.update(caller.userId, { passwordHash });
        sessions.endAllOf(caller.userId, caller.sessionId);
      });
    },

    /** From the command line; ends every session of the account. */
    async setPassword(email: string, password: string): Promise<UserRow> {
      const passwordHash = await passwords.hash(password);
      return write(() => {
        const user = users.findByEmail(email);
        if (!user) throw new ApiError("SVC_USER_NOT_FOUND");
        sessions.endAllOf(user.id);
        return users.update(user.id, { passwordHash, emailVerified: true });
      });
    },
  };
}
