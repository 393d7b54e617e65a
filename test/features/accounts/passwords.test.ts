import { afterAll, expect, spyOn, test } from "bun:test";
import { createPasswords, DUMMY_HASH } from "../../../src/features/accounts/passwords.ts";
import { testServer } from "../../harness/server.ts";

const server = testServer({ REGISTRATION: "open", RATE_LIMIT_AUTH_LOGIN: 1000 });
afterAll(server.close);

test("[5] an unknown address, an account without a password and a wrong password each take the time of one verification", async () => {
  const password = "correct horse battery";
  await server.call("POST", "/v1/auth/register", { body: { email: "ada@example.com", password } });
  const { email: withoutPassword } = await server.session();
  const verify = spyOn(Bun.password, "verify");
  const parameters = (hash: string) => hash.split("$").slice(1, 4).join("$");
  for (const email of ["ada@example.com", "unknown@example.com", withoutPassword, "not an address"]) {
    verify.mockClear();
    const { status, body } = await server.call("POST", "/v1/auth/login", {
      body: { email, password: "wrong password" },
    });
    expect([status, body.code]).toEqual([401, "SVC_INVALID_CREDENTIALS"]);
    expect(verify).toHaveBeenCalledTimes(1);
    expect(parameters(String(verify.mock.calls[0]?.[1]))).toBe("argon2id$v=19$m=19456,t=2,p=1");
  }
  verify.mockRestore();
});

test("[5] passwords are stored as argon2id with a salt each; the dummy hash has the same form and matches nothing", async () => {
  const passwords = createPasswords();
  const [one, two] = await Promise.all([passwords.hash("same password"), passwords.hash("same password")]);
  expect(one).toStartWith("$argon2id$v=19$m=19456,t=2,p=1$");
  expect(one).not.toBe(two);
  expect(DUMMY_HASH.split("$").slice(0, 4)).toEqual(one.split("$").slice(0, 4));
  expect(DUMMY_HASH.length).toBe(one.length);
  expect(await passwords.verify("same password", one)).toBe(true);
  expect(await passwords.verify("other password", one)).toBe(false);
  expect(await passwords.verify("same password", null)).toBe(false);
});

test("[5] a password matches however a keyboard encodes its letters", async () => {
  const passwords = createPasswords();
  const hash = await passwords.hash("pa\u0308sswort123");
  expect(await passwords.verify("p\u00e4sswort123", hash)).toBe(true);
});

test.each([
  [8, 2],
  [2, 1],
  [1, 1],
])("[5] on %d cores at most %d hashes run in parallel, and all of them finish", async (cores, expected) => {
  let running = 0;
  let most = 0;
  const hash = spyOn(Bun.password, "hash").mockImplementation((async () => {
    running += 1;
    most = Math.max(most, running);
    await Bun.sleep(1);
    running -= 1;
    return "hash";
  }) as typeof Bun.password.hash);
  const passwords = createPasswords(cores);
  const failing = spyOn(Bun.password, "verify").mockImplementation((async () => {
    throw new Error("broken hash");
  }) as typeof Bun.password.verify);
  const work = Array.from({ length: 20 }, () => passwords.hash("a password"));
  await expect(passwords.verify("a password", "broken")).rejects.toThrow("broken hash");
  expect(await Promise.all(work)).toEqual(Array(20).fill("hash"));
  expect(await passwords.hash("one more")).toBe("hash");
  expect(most).toBe(expected);
  hash.mockRestore();
  failing.mockRestore();
});

test("[5] more than a hundred waiting sign-ins are refused with a retry time, and the others still succeed", async () => {
  const open: (() => void)[] = [];
  const verify = spyOn(Bun.password, "verify").mockImplementation(
    (() => new Promise<boolean>((done) => open.push(() => done(true)))) as typeof Bun.password.verify,
  );
  const passwords = createPasswords(8);
  const waiting = Array.from({ length: 102 }, () => passwords.verify("a password", "a hash"));
  await expect(passwords.verify("a password", "a hash")).rejects.toMatchObject({
    code: "SVC_RATE_LIMITED",
    extra: { retryAfterSeconds: 5 },
  });
  const all = Promise.all(waiting);
  while (open.length > 0) {
    open.shift()?.();
    await Bun.sleep(0);
  }
  expect(await all).toEqual(Array(102).fill(true));
  verify.mockRestore();
});
