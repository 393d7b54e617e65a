import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PROGRAM, type RunningStoa, startStoa, stoa } from "./stoa.ts";

const dataDir = mkdtempSync(join(tmpdir(), "stoa-admin-"));
let server: RunningStoa;

beforeAll(async () => {
  server = await startStoa([...PROGRAM, "serve", "--port", "0", "--media-udp-port", "0", "--data-dir", dataDir]);
});
afterAll(() => {
  server.child.kill("SIGKILL");
  rmSync(dataDir, { recursive: true, force: true });
});

const admin = (stdin: string, ...args: string[]) => stoa(["admin", ...args, "--data-dir", dataDir], { stdin });

const login = (email: string, password: string) =>
  fetch(`${server.url}/v1/auth/login`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ email, password }),
  });

test("[11] an empty server names the next step", () => {
  expect(server.out).toContain(`Next: open ${server.url}/ to create the operator account.`);
});

test("[11] admin create makes an operator who can sign in to the running server", async () => {
  const { code, out } = await admin("correct horse battery\n", "create", "op@example.com", "--name", "Op", "--json");
  expect(code).toBe(0);
  expect(JSON.parse(out)).toMatchObject({ email: "op@example.com", name: "Op", isOperator: true });
  expect(out).not.toContain("correct horse");
  expect((await login("op@example.com", "correct horse battery")).status).toBe(200);
});

test("[11] an invalid address makes no account", async () => {
  const { code, err } = await admin("correct horse battery\n", "create", "op.example.com");
  expect([code, err]).toEqual([2, expect.stringContaining("op.example.com is not an e-mail address")]);
});

test("[11] creating an account with an e-mail address that exists fails with an error message and no stack trace", async () => {
  const { code, err } = await admin("another password\n", "create", "op@example.com");
  expect(code).toBe(1);
  expect(err).toContain("exists already");
  expect(err).not.toContain("    at ");
});

test.each([["a".repeat(9)], ["a".repeat(201)], [""]])(
  "[5] a password of another length than 10 to 200 exits 2",
  async (password) => {
    expect((await admin(`${password}\n`, "create", "short@example.com")).code).toBe(2);
    expect((await login("short@example.com", password)).status).not.toBe(200);
  },
);

test("[11] reset-password takes effect on the running server and ends its sessions", async () => {
  const session = await login("op@example.com", "correct horse battery");
  const { accessToken } = (await session.json()) as { accessToken: string };
  const me = () => fetch(`${server.url}/v1/auth/me`, { headers: { authorization: `Bearer ${accessToken}` } });
  expect((await me()).status).toBe(200);
  expect((await admin("a new password\n", "reset-password", "op@example.com")).code).toBe(0);
  expect((await me()).status).toBe(401);
  expect((await login("op@example.com", "correct horse battery")).status).toBe(401);
  expect((await login("op@example.com", "a new password")).status).toBe(200);
  expect((await admin("a new password\n", "reset-password", "nobody@example.com")).code).toBe(1);
});
