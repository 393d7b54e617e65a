import type { Runtime } from "../../kernel/runtime.ts";
import { accountService, type Invitations } from "./account.service.ts";
import { createMailer, createMailTexts } from "./mailer.ts";
import { oauthService } from "./oauth/oauth.service.ts";
import { oneTimeTokenService } from "./one-time-token.service.ts";
import { createPasswords } from "./passwords.ts";
import { recoveryService } from "./recovery.service.ts";
import { sessionService } from "./session.service.ts";
import { userService } from "./user.service.ts";

export type Users = ReturnType<typeof createUsers>;

/** Made before the rest: projects need the users to invite them, and signing up needs the projects' invitations. */
export function createUsers(runtime: Runtime) {
  return {
    users: userService(runtime),
    mailer: createMailer(runtime.config, runtime.log),
    mailTexts: createMailTexts(runtime.config),
  };
}

/** Signing up, in and out, with a password or through a provider. */
export function createAccounts(runtime: Runtime, deps: Users & { invitations: Invitations }) {
  const sessions = sessionService(runtime, deps.users);
  const accountDeps = {
    ...deps,
    sessions,
    oneTimeTokens: oneTimeTokenService(runtime),
    passwords: createPasswords(),
  };
  const accounts = accountService(runtime, accountDeps);
  return {
    sessions,
    accounts,
    recovery: recoveryService(runtime, accountDeps),
    oauth: oauthService(runtime, { users: deps.users, sessions, accounts }),
  };
}
