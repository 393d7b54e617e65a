import type { Author } from "../../kernel/author.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { Mailer, MailTexts } from "./mailer.ts";
import type { OneTimeTokenService } from "./one-time-token.service.ts";
import type { Passwords } from "./passwords.ts";
import type { SecondFactorService } from "./second-factor/second-factor.service.ts";
import type { Client, SessionService } from "./session.service.ts";
import { presentUser, type UserService } from "./user.service.ts";
import type { UserRow } from "./user.store.ts";

/** The functions of the projects' invitations that signing up needs. */
export type Invitations = {
  emailOf(token: string): string;
  accept(unit: Unit, token: string, userId: string, author: Author): void;
};

export type AccountDeps = {
  users: UserService;
  sessions: SessionService;
  oneTimeTokens: OneTimeTokenService;
  passwords: Passwords;
  factors: SecondFactorService;
  invitations: Invitations;
  mailer: Mailer;
  mailTexts: MailTexts;
};

export type RegistrationRequest = Client & { id: string; ownHost: boolean };

type NewAccount = { email: string; password: string; name?: string; inviteToken?: string };

export type AccountService = ReturnType<typeof accountService>;

/**
 * Signing up and in. Passwords are hashed outside of units of work, so these methods are async and open their own units
 * of work.
 */
export function accountService({ config, log, write }: Runtime, deps: AccountDeps) {
  const { users, sessions, oneTimeTokens, passwords, invitations, mailer, mailTexts } = deps;

  /** With an invitation, a user may register on a server whose registration is not closed altogether. */
  function requireOpenRegistration(inviteToken: string | undefined): void {
    const mode = config.REGISTRATION;
    const open = mode === "open" || (mode === "first-user" && (users.isEmpty() || inviteToken !== undefined));
    if (!open) throw new ApiError("SVC_REGISTRATION_CLOSED");
    if (inviteToken !== undefined) invitations.emailOf(inviteToken);
  }

  /**
   * The first account becomes the operator, so a page that reaches this server by DNS rebinding must not be able to
   * create it.
   */
  function requireOwnHost({ ownHost }: RegistrationRequest): void {
    if (ownHost || !users.isEmpty()) return;
    throw new ApiError(
      "SVC_ORIGIN_NOT_ALLOWED",
      "The first account is made at localhost, at an IP address, or at PUBLIC_URL. Set PUBLIC_URL to the address that you use.",
    );
  }

  /** An invitation that was sent to the e-mail address verifies it. */
  function register(
    unit: Unit,
    input: { email: string; name?: string; inviteToken?: string; passwordHash: string | null; emailVerified: boolean },
    request: RegistrationRequest,
  ): UserRow {
    const { email, name, inviteToken, passwordHash } = input;
    requireOpenRegistration(inviteToken);
    requireOwnHost(request);
    const invited = inviteToken !== undefined && invitations.emailOf(inviteToken) === users.normalizeEmail(email);
    const user = users.create(unit, { email, name, passwordHash, emailVerified: input.emailVerified || invited });
    if (inviteToken !== undefined) acceptInvitation(unit, inviteToken, user, request);
    return user;
  }

  function acceptInvitation(unit: Unit, inviteToken: string, user: UserRow, request: RegistrationRequest): void {
    const { id, ip, userAgent } = request;
    const actor = { type: "user", id: user.id, email: user.email } as const;
    invitations.accept(unit, inviteToken, user.id, {
      actor,
      request: { id, ip, userAgent },
      environment: "DEVELOPMENT",
    });
  }

  const mustVerify = (user: UserRow) => mailer.delivers && !user.emailVerified;

  return {
    acceptInvitation,
    /** Registers an identity whose provider has verified the e-mail address. */
    registerVerified: (
      unit: Unit,
      input: { email: string; name?: string; inviteToken?: string },
      request: RegistrationRequest,
    ) => register(unit, { ...input, passwordHash: null, emailVerified: true }, request),

    /** The registration options that the sign-in page shows. */
    registration() {
      const firstAccount = users.isEmpty();
      const mode = config.REGISTRATION;
      return { open: mode === "open" || (mode === "first-user" && firstAccount), firstAccount };
    },

    async register({ password, ...input }: NewAccount, request: RegistrationRequest) {
      requireOpenRegistration(input.inviteToken);
      requireOwnHost(request);
      const passwordHash = await passwords.hash(password);
      const { user, started, token } = await write((unit) => {
        const user = register(unit, { ...input, passwordHash, emailVerified: false }, request);
        return mustVerify(user)
          ? { user, started: null, token: oneTimeTokens.issue(unit, "verify-email", user.id) }
          : { user, started: sessions.start(unit, user.id, request), token: null };
      });
      if (started) return sessions.signIn(user, started);
      mailer.post(async () => mailTexts.verifyEmail(user.email, token));
      return { user: presentUser(user) };
    },

    /** An unknown e-mail address costs the same hash and gets the same error as a wrong password. */
    async login(input: { email: string; password: string }, client: Client) {
      const user = users.findByEmail(input.email);
      const matches = await passwords.verify(input.password, user?.passwordHash ?? null);
      if (!user || !matches) throw new ApiError("SVC_INVALID_CREDENTIALS");
      if (mustVerify(user)) throw new ApiError("SVC_EMAIL_NOT_VERIFIED");
      const started = await write((unit) => {
        // Another password, chosen while this one was verified, has ended all sessions of the old one.
        if (users.get(user.id).passwordHash !== user.passwordHash) throw new ApiError("SVC_INVALID_CREDENTIALS");
        return sessions.start(unit, user.id, client);
      });
      return sessions.signIn(user, started);
    },

    async refresh(refreshToken: string) {
      const renewed = await write((unit) => sessions.rotate(unit, refreshToken));
      if (!renewed) throw new ApiError("SVC_AUTH_ERROR");
      return sessions.signIn(renewed.user, renewed);
    },

    /** Either token may have expired; one that still refers to a session is sufficient. */
    async logout({ accessToken, refreshToken }: { accessToken: string | null; refreshToken: string | null }) {
      const caller = accessToken === null ? null : await sessions.verify(accessToken).catch(() => null);
      const ended = await write((unit) => {
        if (caller) sessions.end(unit, caller.sessionId);
        const other = refreshToken !== null && sessions.endByRefreshToken(unit, refreshToken);
        return caller !== null || other;
      });
      if (!ended) throw new ApiError("SVC_AUTH_ERROR");
    },

    get: (userId: string) => presentUser(users.get(userId)),

    rename: (userId: string, { name }: { name?: string | null }) =>
      write((unit) =>
        presentUser(users.update(unit, userId, name === undefined ? {} : { name: name?.trim() || null })),
      ),

    /**
     * Called by the command line and for the configured account: registration rules do not apply, and no mail is sent.
     */
    async createOperator({ password, ...input }: { email: string; password: string; name?: string }): Promise<UserRow> {
      const passwordHash = await passwords.hash(password);
      return write((unit) => users.create(unit, { ...input, passwordHash, emailVerified: true, isOperator: true }));
    },

    /** Creates the account of ADMIN_EMAIL and ADMIN_PASSWORD, once, on an empty database. */
    async createConfiguredOperator(): Promise<void> {
      const { ADMIN_EMAIL: email, ADMIN_PASSWORD: password } = config;
      if (email === undefined || password === undefined || !users.isEmpty()) return;
      const { id } = await this.createOperator({ email, password });
      log.info({ userId: id }, "accounts: operator account created from ADMIN_EMAIL");
    },
  };
}
