import { afterAll, expect, spyOn, test } from "bun:test";
import * as crypto from "node:crypto";
import { sameSecret } from "../../src/kernel/crypto/secrets.ts";
import { testServer } from "../harness/server.ts";

const server = testServer({ REGISTRATION: "open" });
afterAll(server.close);

test("[5] an unknown address costs the same hash as a wrong password, so the time does not reveal accounts", async () => {
  const account = { email: "ada@example.com", password: "a long password" };
  expect((await server.call("POST", "/v1/auth/register", { body: account })).status).toBe(201);
  const verify = spyOn(Bun.password, "verify");
  const hashed = async (body: object) => {
    verify.mockClear();
    const { status } = await server.call("POST", "/v1/auth/login", { body });
    return [status, verify.mock.calls.map(([, hash]) => String(hash).split("$").slice(0, 4).join("$"))];
  };
  const wrong = await hashed({ ...account, password: "another password" });
  const unknown = await hashed({ ...account, email: "nobody@example.com" });
  verify.mockRestore();
  expect(wrong).toEqual([401, [expect.stringContaining("$argon2id$")]]);
  expect(unknown).toEqual(wrong);
});

test("[5] secrets are compared in constant time; the time can reveal only their length", () => {
  const compare = spyOn(crypto, "timingSafeEqual");
  expect(sameSecret(`${"a".repeat(42)}b`, "a".repeat(43))).toBe(false);
  expect(sameSecret("b".repeat(43), "a".repeat(43))).toBe(false);
  expect(sameSecret("a".repeat(43), "a".repeat(43))).toBe(true);
  expect(compare).toHaveBeenCalledTimes(3);
  expect(sameSecret("a", "b".repeat(43))).toBe(false);
  compare.mockRestore();
});
