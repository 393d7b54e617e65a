import { generateRandomCodeVerifier, generateRandomNonce, generateRandomState } from "oauth4webapi";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { ApiError } from "../../../protocol/errors.ts";
import type { AccountService, RegistrationRequest } from "../account.service.ts";
import type { SecondFactorService } from "../second-factor/second-factor.service.ts";
import type { SessionService } from "../session.service.ts";
import type { UserService } from "../user.service.ts";
import type { UserRow } from "../user.store.ts";
import type { Provider, ProviderIdentity } from "./authorization.ts";
import { gitHubProvider } from "./github.provider.ts";
import { oauthStore } from "./oauth.store.ts";
import { oidcProvider } from "./oidc.provider.ts";

export const STATE_SECONDS = 600;

type OAuthDeps = {
  users: UserService;
  sessions: SessionService;
  accounts: AccountService;
  factors: Pick<SecondFactorService, "removeAll">;
};

type Exchange = { code: string; state: string; iss?: string; inviteToken?: string };

export type OAuthService = ReturnType<typeof oauthService>;

/** Signing in through a provider. Its requests to the provider are made outside of units of work. */
export function oauthService(runtime: Runtime, { users, sessions, accounts, factors }: OAuthDeps) {
  const { config, db, keyring, log, now, write } = runtime;
  const store = oauthStore(db);
  const providers = new Map<string, Provider>(
    Object.entries(config.OAUTH).map(([name, provider]) => [
      name,
      name === "github" || provider.issuer === undefined
        ? gitHubProvider(provider, runtime.fetch)
        : oidcProvider({ ...provider, issuer: provider.issuer }, runtime),
    ]),
  );

  function find(name: string): Provider {
    const provider = providers.get(name);
    if (!provider) throw new ApiError("SVC_OAUTH_PROVIDER_NOT_FOUND");
    return provider;
  }

  /** Logs only the message of an error, because a provider's response may contain tokens. */
  async function logFailure<T>(provider: string, work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      log.warn(
        { provider, reason: error instanceof Error ? error.message : "unknown" },
        "oauth: provider sign-in failed",
      );
      throw new ApiError("SVC_OAUTH_ERROR");
    }
  }

  /**
   * Returns the account that is linked to the identity; otherwise links the account with its e-mail address or
   * registers one.
   */
  function findOrRegister(
    unit: Unit,
    provider: string,
    identity: ProviderIdentity,
    inviteToken: string | undefined,
    request: RegistrationRequest,
  ) {
    const linked = store.findUserId(provider, identity.subject);
    if (linked !== undefined) return { user: users.get(linked), isNew: false };
    const { verifiedEmail: email, name, subject } = identity;
    if (email === null) {
      throw new ApiError("SVC_OAUTH_ERROR", "The provider does not vouch for an e-mail address of this account.");
    }
    const existing = users.findByEmail(email);
    const user = existing
      ? verify(unit, existing)
      : accounts.registerVerified(unit, { email, name: name?.slice(0, 80), inviteToken }, request);
    store.insertIdentity(unit, { provider, subject, userId: user.id, linkedAt: now() });
    return { user, isNew: !existing };
  }

  /**
   * An attacker may have registered the e-mail address before its owner did: the unverified password, its sessions and
   * its second factors end, because a passkey signs in by itself.
   */
  function verify(unit: Unit, user: UserRow): UserRow {
    if (user.emailVerified) return user;
    sessions.endAll(unit, user.id);
    factors.removeAll(unit, user.id);
    return users.update(unit, user.id, { emailVerified: true, passwordHash: null });
  }

  return {
    names: [...providers.keys()].sort(),

    async start(name: string, publicUrl: string) {
      const provider = find(name);
      const flow = {
        state: generateRandomState(),
        codeVerifier: generateRandomCodeVerifier(),
        nonce: generateRandomNonce(),
        redirectUri: `${publicUrl}/oauth/${name}/callback`,
      };
      const authorizationUrl = await logFailure(name, provider.authorizationUrl(flow));
      const { state, ...stored } = flow;
      await write((unit) => {
        store.deleteExpiredStates(unit, now());
        const expiresAt = now() + STATE_SECONDS * 1000;
        store.insertState(unit, { ...stored, digest: keyring.digest("one-time", state), provider: name, expiresAt });
      });
      return { authorizationUrl, state };
    },

    async exchange(name: string, { code, state, iss, inviteToken }: Exchange, request: RegistrationRequest) {
      const provider = find(name);
      const digests = keyring.acceptedDigests("one-time", state);
      const [taken] = await write((unit) => digests.flatMap((digest) => store.takeState(unit, digest) ?? []));
      if (!taken || taken.provider !== name || taken.expiresAt <= now()) throw new ApiError("SVC_OAUTH_ERROR");
      const identity = await logFailure(name, provider.identify({ ...taken, state }, { code, iss }));
      const { user, started } = await write((unit) => {
        const { user, isNew } = findOrRegister(unit, name, identity, inviteToken, request);
        if (inviteToken !== undefined && !isNew) accounts.acceptInvitation(unit, inviteToken, user, request);
        return { user, started: sessions.start(unit, user.id, request) };
      });
      return sessions.signIn(user, started);
    },
  };
}
