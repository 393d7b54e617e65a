import { afterAll, describe, expect, test } from "bun:test";
import type { Config } from "../../../src/kernel/config/index.ts";
import { type TestServer, testServer } from "../../harness/server.ts";

const servers: TestServer[] = [];
afterAll(() => Promise.all(servers.map((server) => server.close())));

function newServer(overrides: Partial<Config> = {}) {
  const server = testServer({ RATE_LIMIT_AUTH_REGISTER: 1000, RATE_LIMIT_AUTH_LOGIN: 1000, ...overrides });
  servers.push(server);
  const register = (body: unknown) => server.call("POST", "/v1/auth/register", { body });
  const account = (email: string) => register({ email, password: "correct horse battery" });
  return { server, register, account };
}

describe("[5] registration", () => {
  test("the public settings tell whether registration is open, and nothing else", async () => {
    for (const [mode, before, after] of [
      ["first-user", true, false],
      ["open", true, true],
      ["closed", false, false],
    ] as const) {
      const { server, account } = newServer({ REGISTRATION: mode });
      const ask = async () => (await server.call("GET", "/v1/auth/registration")).body;
      expect(await ask()).toEqual({ open: before, firstAccount: true, providers: [] });
      await account("first@example.com");
      expect(await ask()).toEqual({ open: after, firstAccount: mode === "closed", providers: [] });
    }
    const { server } = newServer();
    const headers = { origin: "https://elsewhere.example" };
    expect((await server.call("GET", "/v1/auth/registration", { headers })).status).toBe(403);
  });

  test("first-user: the first account is the operator, and registration closes after it", async () => {
    const { account } = newServer();
    const first = await account("first@example.com");
    expect(first.body.user).toMatchObject({ isOperator: true });
    const second = await account("second@example.com");
    expect([second.status, second.body.code]).toEqual([403, "SVC_REGISTRATION_CLOSED"]);
    // The response does not tell whether an address is taken.
    expect((await account("first@example.com")).body.code).toBe("SVC_REGISTRATION_CLOSED");
  });

  test("first-user: of many concurrent registrations, one succeeds", async () => {
    const { account } = newServer();
    const replies = await Promise.all(Array.from({ length: 8 }, (_, n) => account(`user${n}@example.com`)));
    expect(replies.map(({ status }) => status).sort()).toEqual([201, ...Array(7).fill(403)]);
  });

  test("open admits every registration; closed admits none, not even the first", async () => {
    const open = newServer({ REGISTRATION: "open" });
    expect((await open.account("a@example.com")).status).toBe(201);
    expect((await open.account("b@example.com")).status).toBe(201);
    const closed = newServer({ REGISTRATION: "closed" });
    expect((await closed.account("a@example.com")).body.code).toBe("SVC_REGISTRATION_CLOSED");
  });

  test("ADMIN_EMAIL makes the operator once, on an empty database, and never again", async () => {
    const { server, account } = newServer({ ADMIN_EMAIL: "Op@Example.com", ADMIN_PASSWORD: "operator password" });
    const { accounts } = server.services;
    await accounts.createConfiguredOperator();
    expect((await account("later@example.com")).body.code).toBe("SVC_REGISTRATION_CLOSED");
    const login = (password: string) =>
      server.call("POST", "/v1/auth/login", { body: { email: "op@example.com", password } });
    expect((await login("operator password")).body.user).toMatchObject({ isOperator: true, emailVerified: true });

    await server.services.recovery.setPassword("op@example.com", "changed password");
    await accounts.createConfiguredOperator();
    expect((await login("operator password")).status).toBe(401);
    expect((await login("changed password")).status).toBe(200);
    expect(server.logLines.join("")).not.toContain("operator password");
  });
});

describe("[5] the fields of a new account", () => {
  const { register } = newServer({ REGISTRATION: "open" });
  let count = 0;
  const fresh = () => `bounds${count++}@example.com`;
  const statusOf = async (body: Record<string, unknown>) =>
    (await register({ email: fresh(), password: "correct horse battery", ...body })).status;

  test("a password has 10-200 characters, counted in code points", async () => {
    expect(await statusOf({ password: "x".repeat(9) })).toBe(400);
    expect(await statusOf({ password: "x".repeat(10) })).toBe(201);
    expect(await statusOf({ password: "🔑".repeat(9) })).toBe(400);
    expect(await statusOf({ password: "🔑".repeat(200) })).toBe(201);
    expect(await statusOf({ password: "x".repeat(201) })).toBe(400);
    expect(await statusOf({ password: undefined })).toBe(400);
    expect(await statusOf({ password: 1234567890 })).toBe(400);
  });

  test("an address has one @ and at most 254 characters", async () => {
    const local = (length: number) => `${"a".repeat(length - "@example.com".length)}@example.com`;
    expect(await statusOf({ email: local(254) })).toBe(201);
    expect(await statusOf({ email: local(255) })).toBe(400);
    for (const email of [
      "",
      "a",
      "@example.com",
      "a@",
      "a@b@c",
      "a b@example.com",
      "<a@example.com>",
      "a,b@example.com",
      null,
    ]) {
      expect([email, await statusOf({ email })]).toEqual([email, 400]);
    }
  });

  test("a name has 0-80 characters", async () => {
    expect(await statusOf({ name: "" })).toBe(201);
    expect(await statusOf({ name: "x".repeat(80) })).toBe(201);
    expect(await statusOf({ name: "x".repeat(81) })).toBe(400);
  });

  test("an error names the field and never repeats the value", async () => {
    const { body, text } = await register({ email: "nobody", password: "s3cret" });
    expect(body.details).toEqual([
      { field: "email", message: expect.any(String) },
      { field: "password", message: "must be 10-200 characters" },
    ]);
    expect(text).not.toContain("s3cret");
  });
});
