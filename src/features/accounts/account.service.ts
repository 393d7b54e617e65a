import type { Author } from "../../kernel/author.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { MailTexts } from "./mail/mail-texts.ts";
import type { Mailer } from "./mail/mailer.ts";
import type { OneTimeTokenService } from "./one-time-token.service.ts";
import type { Passwords } from "./passwords.ts";
import type { Client, SessionService } from "./sessions/session.service.ts";
import { showUser, type UserService } from "./user.service.ts";
import type { UserRow } from "./user.table.ts";

/** What an account needs of the projects: a link that admits to one. */
export type Invitations = {
  emailOf(token: string): string;
  accept(unit: Unit, token: string, userId: string, author: Author): void;
};

export type AccountDeps = {
  users: UserService;
  sessions: SessionService;
  oneTimeTokens: OneTimeTokenService;
  passwords: Passwords;
  invitations: Invitations;
  mailer: Mailer;
  mailTexts: MailTexts;
};

/** The request that a new account comes from. */
export type Registering = Client & { id: string; ownHost: boolean };

type NewAccount = { email: string; password: string; name?: string; inviteToken?: string };

export type AccountService = ReturnType<typeof accountService>;

/** Signing up and in. Passwords are hashed outside of units of work, so these methods are async and write themselves. */
export function accountService({ config, log, write }: Runtime, deps: AccountDeps) {
  const { users, sessions, oneTimeTokens, passwords, invitations, mailer, mailTexts } = deps;

  /** Whether an account may be made now; with an invitation, unless registration is closed altogether. */
  function requireAdmission(inviteToken: string | undefined): void {
    const mode = config.REGISTRATION;
    const admitted = mode === "open" || (mode === "first-user" && (users.isEmpty() || inviteToken !== undefined));
    if (!admitted) throw new ApiError("SVC_REGISTRATION_CLOSED");
    if (inviteToken !== undefined) invitations.emailOf(inviteToken);
  }

  /** The first account is the operator's: no page that a stranger's name was made to lead here may take it. */
  function requireOwnHost({ ownHost }: Registering): void {
    if (ownHost || !users.isEmpty()) return;
    throw new ApiError(
      "SVC_ORIGIN_NOT_ALLOWED",
      "The first account is made at localhost, at an IP address, or at PUBLIC_URL. Set PUBLIC_URL to the address that you use.",
    );
  }

  /** The invitation proves the address when it was sent there. */
  function admit(
    unit: Unit,
    input: Omit<NewAccount, "password">,
    proven: { hash: string | null; email: boolean },
    by: Registering,
  ) {
    const { email, name, inviteToken } = input;
    requireAdmission(inviteToken);
    requireOwnHost(by);
    const invited = inviteToken !== undefined && invitations.emailOf(inviteToken) === users.normalEmail(email);
    const user = users.create(unit, { email, name, passwordHash: proven.hash, emailVerified: proven.email || invited });
    if (inviteToken !== undefined) acceptInvitation(unit, inviteToken, user, by);
    return user;
  }

  function acceptInvitation(unit: Unit, inviteToken: string, { id, email }: UserRow, by: Registering): void {
    const request = { id: by.id, ip: by.ip, userAgent: by.userAgent };
    invitations.accept(unit, inviteToken, id, { actor: { id, email }, request, environment: "DEVELOPMENT" });
  }

  const mustVerify = (user: UserRow) => mailer.delivers && !user.emailVerified;

  return {
    admit,
    acceptInvitation,

    /** What a page without a session may offer. */
    registration() {
      const firstAccount = users.isEmpty();
      const mode = config.REGISTRATION;
      return { open: mode === "open" || (mode === "first-user" && firstAccount), firstAccount };
    },

    async register(input: NewAccount, by: Registering) {
      requireAdmission(input.inviteToken);
      requireOwnHost(by);
      const hash = await passwords.hash(input.password);
      const { user, started, token } = await write((unit) => {
        const user = admit(unit, input, { hash, email: false }, by);
        return mustVerify(user)
          ? { user, started: null, token: oneTimeTokens.issue(unit, "verify-email", user.id) }
          : { user, started: sessions.start(unit, user.id, by), token: null };
      });
      if (started) return sessions.open(user, started);
      mailer.post(async () => mailTexts.verifyEmail(user.email, token));
      return { user: showUser(user) };
    },

    /** An unknown address costs the same hash and gives the same answer as a wrong password. */
    async login(input: { email: string; password: string }, client: Client) {
      const user = users.findByEmail(input.email);
      const matches = await passwords.verify(input.password, user?.passwordHash ?? null);
      if (!user || !matches) throw new ApiError("SVC_INVALID_CREDENTIALS");
      if (mustVerify(user)) throw new ApiError("SVC_EMAIL_NOT_VERIFIED");
      return sessions.open(user, await write((unit) => sessions.start(unit, user.id, client)));
    },

    async refresh(refreshToken: string) {
      const renewed = await write((unit) => sessions.rotate(unit, refreshToken));
      if (!renewed) throw new ApiError("SVC_AUTH_ERROR");
      return sessions.open(renewed.user, renewed);
    },

    /** By whichever of the two still names a session. */
    async logout({ accessToken, refreshToken }: { accessToken: string | null; refreshToken: string | null }) {
      const caller = accessToken === null ? null : await sessions.verify(accessToken).catch(() => null);
      const ended = await write((unit) => {
        if (caller) sessions.end(unit, caller.sessionId);
        const other = refreshToken !== null && sessions.endByRefreshToken(unit, refreshToken);
        return caller !== null || other;
      });
      if (!ended) throw new ApiError("SVC_AUTH_ERROR");
    },

    show: (userId: string) => showUser(users.get(userId)),

    rename: (userId: string, { name }: { name?: string | null }) =>
      write((unit) => showUser(name === undefined ? users.get(userId) : users.rename(unit, userId, name))),

    /** Made from the command line or the configuration: no registration rule, no mail. */
    async createOperator(input: { email: string; password: string; name?: string }): Promise<UserRow> {
      const passwordHash = await passwords.hash(input.password);
      return write((unit) =>
        users.create(unit, {
          email: input.email,
          name: input.name,
          passwordHash,
          emailVerified: true,
          isOperator: true,
        }),
      );
    },

    /** ADMIN_EMAIL and ADMIN_PASSWORD: once, on an empty database. */
    async createConfiguredOperator(): Promise<void> {
      const { ADMIN_EMAIL: email, ADMIN_PASSWORD: password } = config;
      if (email === undefined || password === undefined || !users.isEmpty()) return;
      const { id } = await this.createOperator({ email, password });
      log.info({ userId: id }, "operator account made from ADMIN_EMAIL");
    },
  };
}
