import { createHash } from "node:crypto";

export type GitHubAccount = {
  id: number;
  login: string;
  name: string | null;
  emails: { email: string; primary: boolean; verified: boolean }[];
};

type GitHubServer = {
  url: string;
  /** Signs in as `account` and returns the code that GitHub would send back. */
  visit(authorizationUrl: string, account: GitHubAccount): string;
  close(): Promise<void>;
};

export const GITHUB_CLIENT = { clientId: "gh-client", clientSecret: "gh-client-secret" };

/**
 * GitHub's three responses, as documented, for a machine that cannot reach it: the token endpoint
 * checks client, redirect address and PKCE, and reports a failure with status 200.
 */
export function gitHubServer(): GitHubServer {
  const codes = new Map<string, { account: GitHubAccount; asked: URLSearchParams }>();
  const tokens = new Map<string, GitHubAccount>();

  async function exchange(request: Request): Promise<Response> {
    const form = new URLSearchParams(await request.text());
    const given = codes.get(form.get("code") ?? "");
    codes.delete(form.get("code") ?? "");
    const challenge = createHash("sha256")
      .update(form.get("code_verifier") ?? "")
      .digest("base64url");
    const holds =
      given !== undefined &&
      form.get("client_id") === GITHUB_CLIENT.clientId &&
      form.get("client_secret") === GITHUB_CLIENT.clientSecret &&
      form.get("redirect_uri") === given.asked.get("redirect_uri") &&
      challenge === given.asked.get("code_challenge") &&
      request.headers.get("accept")?.includes("application/json");
    if (!holds) return Response.json({ error: "bad_verification_code", error_description: "The code is incorrect." });
    const token = `gho_${crypto.randomUUID()}`;
    tokens.set(token, given.account);
    return Response.json({ access_token: token, token_type: "bearer", scope: "read:user,user:email" });
  }

  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      const { pathname } = new URL(request.url);
      if (request.method === "POST" && pathname === "/login/oauth/access_token") return exchange(request);
      const account = tokens.get((request.headers.get("authorization") ?? "").replace("Bearer ", ""));
      if (!account) return Response.json({ message: "Bad credentials" }, { status: 401 });
      if (pathname === "/api/v3/user/emails") return Response.json(account.emails);
      if (pathname === "/api/v3/user")
        return Response.json({ id: account.id, login: account.login, name: account.name });
      return Response.json({ message: "Not Found" }, { status: 404 });
    },
  });

  return {
    url: `http://127.0.0.1:${server.port}`,
    visit(authorizationUrl, account) {
      const code = crypto.randomUUID();
      codes.set(code, { account, asked: new URL(authorizationUrl).searchParams });
      return code;
    },
    close: () => server.stop(true),
  };
}
