import { afterAll, expect, test } from "bun:test";
import type { Config } from "../../../src/kernel/config/index.ts";
import { createAuthenticator } from "../../harness/authenticator.ts";
import { OIDC_CLIENT, oidcServer } from "../../harness/oidc.ts";
import { type TestServer, testServer } from "../../harness/server.ts";

const CALLBACK = "http://localhost/oauth/acme/callback";
const acme = await oidcServer([CALLBACK]);
const servers: TestServer[] = [];
afterAll(async () => {
  await Promise.all(servers.map((server) => server.close()));
  await acme.close();
});

acme.people.set("ada", { email: "Ada@example.com", email_verified: true, name: "Ada Lovelace" });
acme.people.set("liar", { email: "victim@example.com", email_verified: false, name: "Mallory" });

function signedInWith(overrides: Partial<Config> = {}) {
  const server = testServer({
    REGISTRATION: "open",
    OAUTH: { acme: { issuer: acme.issuer, ...OIDC_CLIENT } },
    RATE_LIMIT_AUTH_OAUTH_EXCHANGE: 1000,
    ...overrides,
  });
  servers.push(server);
  const start = () => server.call("POST", "/v1/auth/oauth/acme/start");
  const exchange = (body: unknown, headers: Record<string, string> = {}) =>
    server.call("POST", "/v1/auth/oauth/acme/exchange", { body, headers });
  const comeBack = async (subject: string) => {
    const { body, headers } = await start();
    const answer = Object.fromEntries(await acme.visit(String(body.authorizationUrl), subject));
    return { answer, cookie: (headers.get("set-cookie") ?? "").split(";")[0] ?? "" };
  };
  return { server, start, exchange, comeBack };
}

const refusal = { status: 401, code: "SVC_OAUTH_ERROR" };
const outcome = ({ status, body }: { status: number; body: Record<string, unknown> }) => ({ status, code: body.code });

test("[5] the configured providers are listed", async () => {
  const { server } = signedInWith();
  expect((await server.call("GET", "/v1/auth/oauth/providers")).text).toBe('["acme"]');
  const unknown = await server.call("POST", "/v1/auth/oauth/nobody/start");
  expect([unknown.status, unknown.body.code]).toEqual([404, "SVC_OAUTH_PROVIDER_NOT_FOUND"]);
});

test("[5] start sends the browser to the issuer with PKCE, a nonce and our own redirect address", async () => {
  const { body } = await signedInWith().start();
  const url = new URL(String(body.authorizationUrl));
  expect(url.origin).toBe(acme.issuer);
  const asked = Object.fromEntries(url.searchParams);
  expect(asked).toMatchObject({
    response_type: "code",
    client_id: "stoa",
    redirect_uri: CALLBACK,
    state: String(body.state),
    code_challenge_method: "S256",
    code_challenge: expect.stringMatching(/^[\w-]{43}$/),
    nonce: expect.stringMatching(/^[\w-]{43}$/),
  });
  expect(asked.scope?.split(" ")).toEqual(["openid", "email", "profile"]);
});

test("[5] a first sign-in makes an account, and the next one finds it again", async () => {
  const { server, exchange, comeBack } = signedInWith();
  const first = await exchange((await comeBack("ada")).answer);
  expect(first.status).toBe(200);
  expect(first.body).toMatchObject({
    user: { email: "ada@example.com", name: "Ada Lovelace", emailVerified: true },
    accessToken: expect.any(String),
  });
  expect(first.headers.get("set-cookie")).toContain("stoa_refresh=");
  const second = await exchange((await comeBack("ada")).answer);
  expect(second.body.user).toEqual(first.body.user as Record<string, unknown>);
  expect((await server.call("GET", "/v1/auth/me", { key: String(second.body.accessToken) })).status).toBe(200);
});

test("[5] a state works once, for its own provider, for 10 minutes", async () => {
  const { server, exchange, comeBack } = signedInWith({
    OAUTH: { acme: { issuer: acme.issuer, ...OIDC_CLIENT }, other: { issuer: acme.issuer, ...OIDC_CLIENT } },
  });
  const { answer } = await comeBack("ada");
  expect((await exchange(answer)).status).toBe(200);
  expect(outcome(await exchange(answer))).toEqual(refusal);
  expect(outcome(await exchange({ ...answer, state: "x".repeat(43) }))).toEqual(refusal);

  const elsewhere = await comeBack("ada");
  const mixedUp = await server.call("POST", "/v1/auth/oauth/other/exchange", { body: elsewhere.answer });
  expect(outcome(mixedUp)).toEqual(refusal);

  const late = await comeBack("ada");
  server.clock.advance(600_000);
  expect(outcome(await exchange(late.answer))).toEqual(refusal);
  const inTime = await comeBack("ada");
  server.clock.advance(599_999);
  expect((await exchange(inTime.answer)).status).toBe(200);
});

test("[5] a code that the issuer did not give, or gave for another sign-in, is refused", async () => {
  const { exchange, comeBack } = signedInWith();
  const { answer } = await comeBack("ada");
  expect(outcome(await exchange({ ...answer, code: "invented" }))).toEqual(refusal);
  // The code of another sign-in with our own state fails at the issuer, because its PKCE challenge is the other one's.
  const [mine, theirs] = [await comeBack("ada"), await comeBack("ada")];
  expect(outcome(await exchange({ ...mine.answer, code: theirs.answer.code }))).toEqual(refusal);
  const other = await comeBack("ada");
  expect(outcome(await exchange({ ...other.answer, iss: "https://evil.example" }))).toEqual(refusal);
});

test("[5] a browser finishes only a sign-in that it started itself", async () => {
  const { exchange, comeBack } = signedInWith();
  const origin = "http://localhost";
  const attacker = await comeBack("ada");
  const victim = await comeBack("ada");
  expect(outcome(await exchange(attacker.answer, { origin, cookie: victim.cookie }))).toEqual(refusal);
  expect(outcome(await exchange(attacker.answer, { origin }))).toEqual(refusal);
  expect((await exchange(victim.answer, { origin, cookie: victim.cookie })).status).toBe(200);
});

test("[5] an address that the provider does not call verified neither links nor registers an account", async () => {
  const { server, exchange, comeBack } = signedInWith();
  const victim = { email: "victim@example.com", password: "correct horse battery" };
  await server.call("POST", "/v1/auth/register", { body: victim });
  expect(outcome(await exchange((await comeBack("liar")).answer))).toEqual(refusal);
  expect((await server.call("POST", "/v1/auth/login", { body: victim })).status).toBe(200);
});

test("[5] a verified address links the account that has proven it; its password stays", async () => {
  const { server, exchange, comeBack } = signedInWith();
  const password = "correct horse battery";
  const { id } = await server.services.accounts.createOperator({ email: "ada@example.com", password });
  const { body } = await exchange((await comeBack("ada")).answer);
  expect(body.user).toMatchObject({ id, isOperator: true });
  const login = await server.call("POST", "/v1/auth/login", { body: { email: "ada@example.com", password } });
  expect(login.status).toBe(200);
});

test("[5] an attacker who registered the address first is locked out when its owner signs in", async () => {
  const { server, exchange, comeBack } = signedInWith();
  const squatter = { email: "ada@example.com", password: "squatters password" };
  const { body } = await server.call("POST", "/v1/auth/register", { body: squatter });
  expect((await exchange((await comeBack("ada")).answer)).body.user).toMatchObject({ emailVerified: true });
  expect((await server.call("POST", "/v1/auth/login", { body: squatter })).status).toBe(401);
  expect((await server.call("GET", "/v1/auth/me", { key: String(body.accessToken) })).status).toBe(401);
});

test("[5] a passkey of an attacker who registered the address first ends when its owner signs in", async () => {
  const { server, exchange, comeBack } = signedInWith();
  const squatter = { email: "ada@example.com", password: "squatters password" };
  const { body } = await server.call("POST", "/v1/auth/register", { body: squatter });
  const passkey = createAuthenticator("http://localhost");
  const optionsOf = async (path: string, key?: string) =>
    (await server.call("POST", path, { key, body: squatter })).body.options as { challenge: string };
  const key = String(body.accessToken);
  const response = passkey.create(await optionsOf("/v1/auth/factors/passkeys/start", key));
  const added = await server.call("POST", "/v1/auth/factors/passkeys", { key, body: { name: "mine", response } });
  expect(added.status).toBe(201);

  const owner = await exchange((await comeBack("ada")).answer);
  expect(owner.body.secondFactor).toBeNull();
  const challenge = await optionsOf("/v1/auth/passkey/start");
  const back = await server.call("POST", "/v1/auth/passkey", { body: { response: passkey.get(challenge) } });
  expect(outcome(back)).toEqual({ status: 400, code: "SVC_SECOND_FACTOR_INVALID" });
});

test("[5] a provider does not open a closed registration, but an invitation does", async () => {
  const { server, exchange, comeBack } = signedInWith({ REGISTRATION: "first-user" });
  const { token: owner, projectId } = await server.session({ role: "OWNER" });
  const refused = await exchange((await comeBack("ada")).answer);
  expect([refused.status, refused.body.code]).toEqual([403, "SVC_REGISTRATION_CLOSED"]);

  const body = { email: "ada@example.com", role: "VIEWER" };
  await server.call("POST", `/v1/projects/${projectId}/members`, { key: owner, body });
  await server.services.mailer.drain();
  const inviteToken = /#token=([\w-]{43})/.exec(server.logLines.join(""))?.[1];
  const admitted = await exchange({ ...(await comeBack("ada")).answer, inviteToken });
  expect(admitted.status).toBe(200);
  const project = await server.call("GET", `/v1/projects/${projectId}`, { key: String(admitted.body.accessToken) });
  expect(project.body.role).toBe("VIEWER");
});

test("[5] an issuer that does not respond fails the sign-in, and the next sign-in tries it again", async () => {
  let down = true;
  const issuer = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch(request): Response {
      const { origin } = new URL(request.url);
      return down
        ? new Response("", { status: 503 })
        : Response.json({ issuer: origin, authorization_endpoint: `${origin}/auth` });
    },
  });
  const { start } = signedInWith({ OAUTH: { acme: { issuer: `http://127.0.0.1:${issuer.port}`, ...OIDC_CLIENT } } });
  expect(outcome(await start())).toEqual(refusal);
  down = false;
  expect((await start()).status).toBe(200);
  await issuer.stop(true);
});

test("[5] no code, state, token or client secret reaches the log", async () => {
  const { server, exchange, comeBack } = signedInWith();
  const { answer } = await comeBack("ada");
  const { body } = await exchange(answer);
  const failed = await comeBack("ada");
  await exchange({ ...failed.answer, code: "invented-code" });
  const log = server.logLines.join("");
  expect(log).toContain("provider sign-in failed");
  for (const secret of [
    answer.code,
    answer.state,
    failed.answer.state,
    "invented-code",
    OIDC_CLIENT.clientSecret,
    body.accessToken,
  ]) {
    expect(log).not.toContain(String(secret));
  }
});
