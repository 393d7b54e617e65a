import * as oauth from "oauth4webapi";
import type { OAuthProvider } from "../../../kernel/config/index.ts";

export const TIMEOUT_MS = 10_000;

/** The secrets of one sign-in. The provider's code is worthless without them. */
type Flow = { state: string; codeVerifier: string; nonce: string; redirectUri: string };

/** The query parameters of the provider's redirect. */
type Callback = { code: string; iss?: string };

export type ProviderIdentity = {
  subject: string;
  /** Null unless the provider reports the e-mail address as verified. */
  verifiedEmail: string | null;
  name: string | null;
};

export type Provider = {
  authorizationUrl(flow: Flow): Promise<string>;
  /** Exchanges the code for the user's identity; throws when the provider's response is invalid. */
  identify(flow: Flow, callback: Callback): Promise<ProviderIdentity>;
};

/** The authorization code flow with PKCE, which both kinds of provider share. */
export function createAuthorization({ clientId, clientSecret }: OAuthProvider, fetch: typeof globalThis.fetch) {
  const client: oauth.Client = { client_id: clientId };

  /** The configuration allows plain http only for an issuer on loopback. */
  const options = (url: string) => ({
    [oauth.customFetch]: fetch as never,
    [oauth.allowInsecureRequests]: url.startsWith("http:"),
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });

  return {
    client,
    options,

    async authorizationUrl(
      endpoint: string | undefined,
      flow: Flow,
      scope: string,
      extra: Record<string, string> = {},
    ) {
      if (endpoint === undefined) throw new Error("the issuer has no authorization endpoint");
      const url = new URL(endpoint);
      const parameters = {
        response_type: "code",
        client_id: clientId,
        redirect_uri: flow.redirectUri,
        scope,
        state: flow.state,
        code_challenge: await oauth.calculatePKCECodeChallenge(flow.codeVerifier),
        code_challenge_method: "S256",
        ...extra,
      };
      for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
      return url.href;
    },

    async redeem(server: oauth.AuthorizationServer, flow: Flow, callback: Callback, expectedNonce?: string) {
      // Each provider has its own redirect URI, which already distinguishes issuers, so `iss` is checked only when
      // sent.
      const response = new URLSearchParams({
        code: callback.code,
        state: flow.state,
        iss: callback.iss ?? server.issuer,
      });
      const parameters = oauth.validateAuthResponse(server, client, response, flow.state);
      const methods = server.token_endpoint_auth_methods_supported ?? ["client_secret_basic"];
      const authentication = methods.includes("client_secret_basic")
        ? oauth.ClientSecretBasic(clientSecret)
        : oauth.ClientSecretPost(clientSecret);
      const granted = await oauth.authorizationCodeGrantRequest(
        server,
        client,
        authentication,
        parameters,
        flow.redirectUri,
        flow.codeVerifier,
        options(server.token_endpoint ?? server.issuer),
      );
      return oauth.processAuthorizationCodeResponse(server, client, granted, {
        expectedNonce,
        requireIdToken: expectedNonce !== undefined,
      });
    },
  };
}
