import { ApiError } from "../protocol/errors.ts";
import type { Runtime } from "../runtime.ts";
import type { Passwords } from "./passwords.ts";
import { ACCESS_TOKEN_SECONDS, type Client, type SessionService, type Started } from "./session.service.ts";
import type { UserService } from "./user.service.ts";
import type { UserRow } from "./user.table.ts";

export type AccountDeps = { users: UserService; sessions: SessionService; passwords: Passwords };

export type AccountService = ReturnType<typeof accountService>;

/** Signing up and in. Passwords are hashed outside of units of work, so these methods are async and write themselves. */
export function accountService({ config, log, write }: Runtime, { users, sessions, passwords }: AccountDeps) {
  const opened = async (user: UserRow, { session, refreshToken }: Started) => ({
    user: users.show(user),
    accessToken: await sessions.accessToken(session),
    expiresIn: ACCESS_TOKEN_SECONDS,
    refreshToken,
  });

  function requireOpenRegistration(): void {
    const mayRegister = config.REGISTRATION === "open" || (config.REGISTRATION === "first-user" && users.isEmpty());
    if (!mayRegister) throw new ApiError("SVC_REGISTRATION_CLOSED");
  }

  return {
    async register(input: { email: string; password: string; name?: string }, client: Client) {
      requireOpenRegistration();
      const passwordHash = await passwords.hash(input.password);
      const { user, started } = await write(() => {
        // Again, for two first users who hashed at the same time.
        requireOpenRegistration();
        const user = users.create({ email: input.email, name: input.name, passwordHash, emailVerified: true });
        return { user, started: sessions.start(user.id, client) };
      });
      return opened(user, started);
    },

    /** An unknown address costs the same hash and gives the same answer as a wrong password. */
    async login(input: { email: string; password: string }, client: Client) {
      const user = users.findByEmail(input.email);
      const matches = await passwords.verify(input.password, user?.passwordHash ?? null);
      if (!user || !matches) throw new ApiError("SVC_INVALID_CREDENTIALS");
      if (!user.emailVerified) throw new ApiError("SVC_EMAIL_NOT_VERIFIED");
      return opened(user, await write(() => sessions.start(user.id, client)));
    },

    async refresh(refreshToken: string) {
      const renewed = await write(() => sessions.rotate(refreshToken));
      if (!renewed) throw new ApiError("SVC_AUTH_ERROR");
      return opened(renewed.user, renewed);
    },

    /** By whichever of the two still names a session. */
    async logout({ accessToken, refreshToken }: { accessToken: string | null; refreshToken: string | null }) {
      const caller = accessToken === null ? null : await sessions.verify(accessToken).catch(() => null);
      const ended = await write(() => {
        if (caller) sessions.end(caller.sessionId);
        const other = refreshToken !== null && sessions.endByRefreshToken(refreshToken);
        return caller !== null || other;
      });
      if (!ended) throw new ApiError("SVC_AUTH_ERROR");
    },

    show: (userId: string) => users.show(users.get(userId)),

    rename: (userId: string, { name }: { name?: string | null }) =>
      write(() => users.show(name === undefined ? users.get(userId) : users.rename(userId, name))),

    /** Made from the command line or the configuration: no registration rule, no mail. */
    async createOperator(input: { email: string; password: string; name?: string }): Promise<UserRow> {
      const passwordHash = await passwords.hash(input.password);
      return write(() =>
        users.create({ email: input.email, name: input.name, passwordHash, emailVerified: true, isOperator: true }),
      );
    },

    /** ADMIN_EMAIL and ADMIN_PASSWORD: once, on an empty database. */
    async createConfiguredOperator(): Promise<void> {
      const { ADMIN_EMAIL: email, ADMIN_PASSWORD: password } = config;
      if (email === undefined || password === undefined || !users.isEmpty()) return;
      const { id } = await this.createOperator({ email, password });
      log.info({ userId: id }, "operator account made from ADMIN_EMAIL");
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
