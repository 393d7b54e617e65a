import { afterAll, expect, test } from "bun:test";
import { GITHUB_CLIENT, type GitHubAccount, gitHubServer } from "../../harness/github.ts";
import { testServer } from "../../harness/server.ts";

const github = gitHubServer();
const server = testServer({
  REGISTRATION: "open",
  RATE_LIMIT_AUTH_OAUTH_EXCHANGE: 1000,
  OAUTH: { github: { issuer: github.url, ...GITHUB_CLIENT } },
});
afterAll(async () => {
  await server.close();
  await github.close();
});

const octocat: GitHubAccount = {
  id: 583231,
  login: "octocat",
  name: null,
  emails: [
    { email: "unverified@example.com", primary: false, verified: false },
    { email: "octo@example.com", primary: true, verified: true },
  ],
};

async function signIn(account: GitHubAccount, change: Record<string, string> = {}) {
  const { body } = await server.call("POST", "/v1/auth/oauth/github/start");
  const code = github.visit(String(body.authorizationUrl), account);
  return server.call("POST", "/v1/auth/oauth/github/exchange", { body: { code, state: body.state, ...change } });
}

test("[5] GitHub signs in by its primary, verified address and stays linked by its id", async () => {
  const first = await signIn(octocat);
  expect(first.status).toBe(200);
  expect(first.body.user).toMatchObject({ email: "octo@example.com", name: "octocat", emailVerified: true });
  const moved = { ...octocat, emails: [{ email: "elsewhere@example.com", primary: true, verified: true }] };
  expect((await signIn(moved)).body.user).toEqual(first.body.user as Record<string, unknown>);
});

test("[5] GitHub without a verified primary address, or with a wrong code, fails to sign in", async () => {
  const unproven = { ...octocat, id: 2, emails: [{ email: "x@example.com", primary: true, verified: false }] };
  for (const refused of [await signIn(unproven), await signIn(octocat, { code: "wrong" })]) {
    expect([refused.status, refused.body.code]).toEqual([401, "SVC_OAUTH_ERROR"]);
  }
});

test("[5] GitHub itself is github.com, with PKCE", async () => {
  const real = testServer({ OAUTH: { github: { issuer: undefined, ...GITHUB_CLIENT } } });
  const { body } = await real.call("POST", "/v1/auth/oauth/github/start");
  const url = new URL(String(body.authorizationUrl));
  expect(url.origin + url.pathname).toBe("https://github.com/login/oauth/authorize");
  expect(url.searchParams.get("code_challenge_method")).toBe("S256");
  await real.close();
});
