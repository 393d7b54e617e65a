import type { Runtime } from "../../kernel/runtime.ts";
import { accountService, type Invitations } from "./account.service.ts";
import { createMailTexts } from "./mail/mail-texts.ts";
import { createMailer } from "./mail/mailer.ts";
import { oauthService } from "./oauth/oauth.service.ts";
import { oneTimeTokenService } from "./one-time-token.service.ts";
import { createPasswords } from "./passwords.ts";
import { recoveryService } from "./recovery.service.ts";
import { sessionService } from "./sessions/session.service.ts";
import { userService } from "./user.service.ts";

export type Users = ReturnType<typeof createUsers>;

/** Who there is and how to write to them. Projects need this to invite, and signing up needs projects' invitations. */
export function createUsers(runtime: Runtime) {
  return {
    users: userService(runtime),
    mailer: createMailer(runtime.config, runtime.log),
    mailTexts: createMailTexts(runtime.config),
  };
}

/** The feature as a whole: signing up, in and out, by password or through a provider. */
export function createAccounts(runtime: Runtime, deps: Users & { invitations: Invitations }) {
  const sessions = sessionService(runtime);
  const signUp = {
    ...deps,
    sessions,
    oneTimeTokens: oneTimeTokenService(runtime),
    passwords: createPasswords(),
  };
  const accounts = accountService(runtime, signUp);
  return {
    sessions,
    accounts,
    recovery: recoveryService(runtime, signUp),
    oauth: oauthService(runtime, { users: deps.users, sessions, accounts }),
  };
}
