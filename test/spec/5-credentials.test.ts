import { afterAll, describe, expect, test } from "bun:test";
import { type CredentialKind, credentialsOf } from "../../src/kernel/http/guards.ts";
import { testServer } from "../harness/server.ts";

const server = testServer();
afterAll(server.close);

const { key } = await server.project();
const { token: session } = await server.session({ operator: true });
const mint = async (path: string, body: unknown, field: string) =>
  String((await server.call("POST", path, { key, body })).body[field]);
const roomId = await mint("/v1/rooms", { name: "lobby" }, "id");

/** One valid credential of each kind. */
const CREDENTIALS: Record<CredentialKind, string> = {
  apiKey: key,
  session,
  chatToken: await mint("/v1/chat/tokens", { userId: "ada" }, "token"),
  rtcToken: await mint(`/v1/rooms/${roomId}/rtc-tokens`, { participantIdentity: "ada" }, "token"),
  sfuSecret: "test-sfu-secret",
};
const KINDS = Object.keys(CREDENTIALS) as CredentialKind[];

/** Every route that a guard stands before, with what that guard takes; a new route is in the table by itself. */
const ROUTES = server.app.routes
  .map(({ method, path, hooks }) => ({
    method,
    path: path.replace(/:\w+/g, "anything"),
    takes: credentialsOf(hooks as object),
  }))
  .filter(({ method, takes }) => takes.length > 0 && method !== "WS");

test("[5] every kind of credential is accepted by at least one route", () => {
  expect(ROUTES.length).toBeGreaterThan(40);
  const opened = new Set(ROUTES.flatMap(({ takes }) => takes));
  for (const kind of ["apiKey", "session", "chatToken", "sfuSecret"] as const) expect(opened).toContain(kind);
});

test("[5] a 401 says which credential the route takes, and what is wrong with an API key", async () => {
  const says = async (path: string, options: object) => (await server.call("GET", path, options)).body.message;
  const basic = { headers: { authorization: "Basic YTpi" } };
  for (const options of [{}, basic]) {
    expect(await says("/v1/rooms", options)).toBe("Send the header Authorization: Bearer with an API key.");
    expect(await says("/v1/chat/conversations", options)).toContain("with an API key or a chat token.");
  }
  expect(await says("/v1/projects", { key })).toBe(
    "This route takes the access token of a dashboard session, not an API key.",
  );
  const wrong = `${key.slice(0, -1)}${key.endsWith("A") ? "B" : "A"}`;
  for (const invalid of [CREDENTIALS.chatToken, key.slice(0, -9), wrong]) {
    expect(await says("/v1/rooms", { key: invalid })).toContain("was revoked, or was not copied whole: svk_…");
  }
});

for (const { method, path, takes } of ROUTES) {
  describe(`[5] ${method} ${path}`, () => {
    for (const kind of KINDS.filter((kind) => !takes.includes(kind))) {
      test(`refuses a valid ${kind}`, async () => {
        const { status, body, headers } = await server.call(method, path, { key: CREDENTIALS[kind] });
        expect([status, body.code]).toEqual([401, "SVC_AUTH_ERROR"]);
        expect(headers.get("www-authenticate")).toBe("Bearer");
      });
    }

    for (const kind of takes) {
      test(`takes a ${kind}`, async () => {
        expect((await server.call(method, path, { key: CREDENTIALS[kind] })).status).not.toBe(401);
      });
    }

    test("responds with 401 to a client without a valid credential, whatever it sends", async () => {
      const bodies = method === "GET" ? [undefined] : ["{ not json", '{"unknown":1}', undefined];
      for (const raw of bodies) {
        const { status, body } = await server.call(method, path, { raw });
        expect([status, body.code]).toEqual([401, "SVC_AUTH_ERROR"]);
        expect(body).not.toHaveProperty("details");
      }
    });
  });
}

test("[5] a credential is read from a Bearer header only", async () => {
  const sent = async (headers: Record<string, string>, query = "") =>
    (await server.call("GET", `/v1/project${query}`, { headers })).status;
  expect(await sent({ authorization: `Bearer ${key}` })).toBe(200);
  expect(await sent({ authorization: `bearer ${key}` })).toBe(200);
  expect(await sent({ authorization: key })).toBe(401);
  expect(await sent({ authorization: `Basic ${btoa(`${key}:`)}` })).toBe(401);
  expect(await sent({ authorization: `Bearer ${key} ${key}` })).toBe(401);
  expect(await sent({ "x-api-key": key })).toBe(401);
  expect(await sent({}, `?token=${key}&api_key=${key}`)).toBe(401);
});

test("[5] a token signed for another purpose, unsigned, or changed is refused", async () => {
  const [head = "", claims = "", signature = ""] = session.split(".");
  const unsigned = `${Buffer.from('{"alg":"none"}').toString("base64url")}.${claims}.`;
  const others = JSON.parse(Buffer.from(claims, "base64url").toString()) as Record<string, unknown>;
  const changed = Buffer.from(JSON.stringify({ ...others, sub: "somebody-else" })).toString("base64url");
  for (const forged of [unsigned, `${head}.${changed}.${signature}`, `${head}.${claims}.`, `${session}x`]) {
    const { status, body } = await server.call("GET", "/v1/auth/me", { key: forged });
    expect([status, body.code]).toEqual([401, "SVC_AUTH_ERROR"]);
  }
});
