import * as oauth from "oauth4webapi";
import type { OAuthProvider } from "../../../kernel/config/index.ts";
import { type Callback, type Flow, TIMEOUT_MS } from "./provider.ts";

/** The authorization code flow with PKCE, as both kinds of provider share it. */
export function createAuthorization({ clientId, clientSecret }: OAuthProvider, fetch: typeof globalThis.fetch) {
  const client: oauth.Client = { client_id: clientId };

  /** Plain http is for an issuer on loopback, which the configuration has checked. */
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
      // Each provider has a redirect address of its own, which already tells issuers apart; `iss` is checked when sent.
      const answer = new URLSearchParams({
        code: callback.code,
        state: flow.state,
        iss: callback.iss ?? server.issuer,
      });
      const parameters = oauth.validateAuthResponse(server, client, answer, flow.state);
      const methods = server.token_endpoint_auth_methods_supported ?? ["client_secret_basic"];
      const authentication = methods.includes("client_secret_basic")
        ? oauth.ClientSecretBasic(clientSecret)
        : oauth.ClientSecretPost(clientSecret);
      const response = await oauth.authorizationCodeGrantRequest(
        server,
        client,
        authentication,
        parameters,
        flow.redirectUri,
        flow.codeVerifier,
        options(server.token_endpoint ?? server.issuer),
      );
      return oauth.processAuthorizationCodeResponse(server, client, response, {
        expectedNonce,
        requireIdToken: expectedNonce !== undefined,
      });
    },
  };
}
