import type { Runtime } from "../../kernel/runtime.ts";
import { accountService, type Invitations } from "./account.service.ts";
import { createMailer, createMailTexts } from "./mailer.ts";
import { oauthService } from "./oauth/oauth.service.ts";
import { oneTimeTokenService } from "./one-time-token.service.ts";
import { createPasswords } from "./passwords.ts";
import { recoveryService } from "./recovery.service.ts";
import { type FactorChange, secondFactorService } from "./second-factor/second-factor.service.ts";
import { type Client, sessionService } from "./session.service.ts";
import { userService } from "./user.service.ts";

export type Users = ReturnType<typeof createUsers>;

/** Created before the rest: projects need users for invitations, and signing up needs the projects' invitations. */
export function createUsers(runtime: Runtime) {
  return {
    users: userService(runtime),
    mailer: createMailer(runtime.config, runtime.log),
    mailTexts: createMailTexts(runtime.config),
  };
}

/** Signing up, in and out, with a password or through a provider. */
export function createAccounts(runtime: Runtime, deps: Users & { invitations: Invitations }) {
  const passwords = createPasswords();
  const factors = secondFactorService(runtime, {
    users: deps.users,
    passwords,
    notify: (userId, change) => notifyOfFactor(deps, runtime.now(), userId, change),
  });
  const sessions = sessionService(runtime, {
    users: deps.users,
    factors,
    notify: (userId, client) => notifyOfSignIn(deps, runtime.now(), userId, client),
  });
  const accountDeps = {
    ...deps,
    sessions,
    oneTimeTokens: oneTimeTokenService(runtime),
    passwords,
    factors,
  };
  const accounts = accountService(runtime, accountDeps);
  return {
    sessions,
    factors,
    accounts,
    recovery: recoveryService(runtime, accountDeps),
    oauth: oauthService(runtime, { users: deps.users, sessions, accounts, factors }),
  };
}

/** Without a mail server the sign-in is only logged and shown in the list of sessions. */
function notifyOfSignIn({ users, mailer, mailTexts }: Users, at: number, userId: string, client: Client): void {
  if (!mailer.delivers) return;
  mailer.post(async () => mailTexts.signedIn(users.get(userId).email, at, client));
}

function notifyOfFactor({ users, mailer, mailTexts }: Users, at: number, userId: string, change: FactorChange): void {
  if (!mailer.delivers) return;
  mailer.post(async () => mailTexts.factorChanged(users.get(userId).email, at, change));
}
