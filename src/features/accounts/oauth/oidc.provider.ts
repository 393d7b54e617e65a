import * as oauth from "oauth4webapi";
import type { OAuthProvider } from "../../../kernel/config/index.ts";
import type { Now } from "../../../kernel/time/clock.ts";
import { createAuthorization, type Provider, type ProviderIdentity } from "./authorization.ts";

const DISCOVERY_TTL_MS = 3_600_000;

/** Google or any other OpenID Connect issuer, whose endpoints are found by discovery. */
export function oidcProvider(
  config: OAuthProvider & { issuer: string },
  { fetch, now }: { fetch: typeof globalThis.fetch; now: Now },
): Provider {
  const { client, options, authorizationUrl, redeem } = createAuthorization(config, fetch);
  const issuer = new URL(config.issuer);
  let cached: { server: Promise<oauth.AuthorizationServer>; until: number } | null = null;

  async function fetchMetadata(): Promise<oauth.AuthorizationServer> {
    const response = await oauth.discoveryRequest(issuer, options(config.issuer));
    return oauth.processDiscoveryResponse(issuer, response);
  }

  function discover(): Promise<oauth.AuthorizationServer> {
    if (cached && cached.until > now()) return cached.server;
    const server = fetchMetadata();
    cached = { server, until: now() + DISCOVERY_TTL_MS };
    server.catch(() => {
      cached = null;
    });
    return server;
  }

  return {
    async authorizationUrl(flow) {
      const { authorization_endpoint } = await discover();
      return authorizationUrl(authorization_endpoint, flow, "openid email profile", { nonce: flow.nonce });
    },

    async identify(flow, callback) {
      const server = await discover();
      const tokens = await redeem(server, flow, callback, flow.nonce);
      const claims = oauth.getValidatedIdTokenClaims(tokens);
      if (!claims) throw new Error("the issuer sent no ID token");
      if (claims.email !== undefined || server.userinfo_endpoint === undefined) return identityOf(claims.sub, claims);
      // Issuers may omit claims of the requested scopes from the ID token.
      const response = await oauth.userInfoRequest(
        server,
        client,
        tokens.access_token,
        options(server.userinfo_endpoint),
      );
      return identityOf(claims.sub, await oauth.processUserInfoResponse(server, client, claims.sub, response));
    },
  };
}

function identityOf(subject: string, claims: { [claim: string]: unknown }): ProviderIdentity {
  const { email, email_verified: verified, name } = claims;
  return {
    subject,
    verifiedEmail: typeof email === "string" && verified === true ? email : null,
    name: typeof name === "string" ? name : null,
  };
}
