import { expect, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createJwt, type TokenKind } from "../../src/kernel/crypto/jwt.ts";
import { createKeyring, SecretRefused, sameSecret, secretFromFile } from "../../src/kernel/crypto/secrets.ts";
import { closeRuntime, createRuntime } from "../../src/kernel/runtime.ts";
import { fakeClock } from "../harness/clock.ts";
import { testConfig } from "../harness/test-config.ts";

test("[5] a token of one kind is not valid as another", async () => {
  const clock = fakeClock();
  const jwt = createJwt(createKeyring("a".repeat(32)), clock.now);
  const kinds: TokenKind[] = ["session", "chat-token", "rtc-token"];
  for (const made of kinds) {
    const token = await jwt.sign(made, "id-1", { sub: "x" }, clock.now() + 60_000);
    for (const read of kinds) {
      if (made === read) expect(await jwt.verify(read, token)).toMatchObject({ jti: "id-1", sub: "x" });
      else await expect(jwt.verify(read, token)).rejects.toMatchObject({ code: "SVC_AUTH_ERROR" });
    }
  }
});

test("[5] a token that is expired, of another master secret, changed by a byte or of `alg: none` is refused", async () => {
  const clock = fakeClock();
  const jwt = createJwt(createKeyring("a".repeat(32)), clock.now);
  const token = await jwt.sign("chat-token", "id-1", {}, clock.now() + 60_000);
  const [header = "", payload = "", signature = ""] = token.split(".");
  const none = Buffer.from('{"alg":"none"}').toString("base64url");
  for (const bad of [`${header}.${payload}.${signature.slice(0, -2)}AA`, `${none}.${payload}.`, "x", ""]) {
    await expect(jwt.verify("chat-token", bad)).rejects.toMatchObject({ code: "SVC_AUTH_ERROR" });
  }
  const other = createJwt(createKeyring("b".repeat(32)), clock.now);
  await expect(other.verify("chat-token", token)).rejects.toMatchObject({ code: "SVC_AUTH_ERROR" });
  clock.advance(60_000);
  await expect(jwt.verify("chat-token", token)).rejects.toMatchObject({ code: "SVC_TOKEN_EXPIRED" });
});

test("a secret is generated once, in a file that only its owner can read", () => {
  const folder = mkdtempSync(join(tmpdir(), "stoa-secret-"));
  const secret = secretFromFile(folder, "secret");
  expect(secret.length).toBeGreaterThanOrEqual(43);
  expect(secretFromFile(folder, "secret")).toBe(secret);
  expect(statSync(join(folder, "secret")).mode & 0o777).toBe(0o600);
  rmSync(folder, { recursive: true });
});

test("a secret file without a secret is refused, for the data and for media nodes", () => {
  const folder = mkdtempSync(join(tmpdir(), "stoa-secret-"));
  for (const left of ["", "\n", "short"]) {
    writeFileSync(join(folder, "secret"), left);
    expect(() => secretFromFile(folder, "secret")).toThrow(SecretRefused);
    expect(() => createRuntime(testConfig({ DATA_DIR: folder }))).toThrow(/contains no secret/);
  }
  rmSync(join(folder, "secret"));
  expect(secretFromFile(folder, "secret")).toMatch(/^[A-Za-z0-9_-]{43}$/);
  expect(readdirSync(folder)).not.toContain("secret.new");
  rmSync(folder, { recursive: true });
});

test("secrets of different length or content are not equal", () => {
  expect(sameSecret("abc", "abc")).toBe(true);
  expect(sameSecret("abc", "abd")).toBe(false);
  expect(sameSecret("", "abc")).toBe(false);
});

test("the server does not start with another STOA_SECRET than its data has, unless rotation is requested", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "stoa-secret-"));
  const open = (secret: string, rotateSecret = false) =>
    createRuntime(testConfig({ DATA_DIR: dataDir, STOA_SECRET: secret }), { rotateSecret });
  await closeRuntime(open("a".repeat(32)));
  expect(() => open("b".repeat(32))).toThrow(/another STOA_SECRET/);
  await closeRuntime(open("b".repeat(32), true));
  await closeRuntime(open("b".repeat(32)));
  rmSync(dataDir, { recursive: true });
});
