import type { AuthorizationServer } from "oauth4webapi";
import type { OAuthProvider } from "../../../kernel/config/index.ts";
import { createAuthorization, type Provider, TIMEOUT_MS } from "./authorization.ts";

type GitHubUser = { id?: unknown; name?: unknown; login?: unknown };
type GitHubEmail = { email?: unknown; primary?: unknown; verified?: unknown };

/** GitHub speaks OAuth but not OpenID Connect. `issuer` is the URL of a GitHub Enterprise Server, if any. */
export function gitHubProvider(config: OAuthProvider, fetch: typeof globalThis.fetch): Provider {
  const { authorizationUrl, redeem } = createAuthorization(config, fetch);
  const site = (config.issuer ?? "https://github.com").replace(/\/$/, "");
  const api = config.issuer === undefined ? "https://api.github.com" : `${site}/api/v3`;
  const server: AuthorizationServer = {
    issuer: site,
    authorization_endpoint: `${site}/login/oauth/authorize`,
    token_endpoint: `${site}/login/oauth/access_token`,
    token_endpoint_auth_methods_supported: ["client_secret_post"],
  };

  async function read(path: string, accessToken: string): Promise<unknown> {
    const response = await fetch(api + path, {
      headers: { authorization: `Bearer ${accessToken}`, accept: "application/vnd.github+json", "user-agent": "stoa" },
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (!response.ok) throw new Error(`GitHub answered ${response.status} to ${path}`);
    return response.json();
  }

  return {
    authorizationUrl: (flow) => authorizationUrl(server.authorization_endpoint, flow, "read:user user:email"),

    async identify(flow, callback) {
      const { access_token } = await redeem(server, flow, callback);
      const user = (await read("/user", access_token)) as GitHubUser;
      if (typeof user.id !== "number") throw new Error("GitHub sent no user id");
      const emails = (await read("/user/emails", access_token)) as GitHubEmail[];
      const primary = emails.find(({ primary, verified }) => primary === true && verified === true)?.email;
      return {
        subject: String(user.id),
        verifiedEmail: typeof primary === "string" ? primary : null,
        name: typeof user.name === "string" ? user.name : typeof user.login === "string" ? user.login : null,
      };
    },
  };
}
