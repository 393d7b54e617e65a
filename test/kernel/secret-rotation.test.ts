import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openSecret, sealSecret } from "../../src/features/webhooks/signature.ts";
import { COMMAND_LINE } from "../../src/kernel/author.ts";
import { createKeyring } from "../../src/kernel/crypto/secrets.ts";
import { closeRuntime, createRuntime } from "../../src/kernel/runtime.ts";
import { createMediaNodes } from "../../src/nodes/media-nodes.ts";
import { createServices } from "../../src/services.ts";
import { testConfig } from "../harness/test-config.ts";

const [OLD, NEW, OTHER] = ["o".repeat(32), "n".repeat(32), "x".repeat(32)];
const dataDir = mkdtempSync(join(tmpdir(), "stoa-rotation-"));
afterAll(() => rmSync(dataDir, { recursive: true, force: true }));

const WEBHOOK = { environment: "DEVELOPMENT" as const, url: "https://example.com/hook", events: [] };

function open(STOA_SECRET: string, STOA_SECRET_PREVIOUS?: string) {
  const runtime = createRuntime(testConfig({ DATA_DIR: dataDir, STOA_SECRET, STOA_SECRET_PREVIOUS }));
  return { runtime, services: createServices(runtime, createMediaNodes(runtime.timers)) };
}

test("with the previous secret set, sessions, tokens and API keys outlive a change, and keys outlive its end", async () => {
  const before = open(OLD);
  const { runtime, services } = before;
  const { key, refreshToken, secret } = await runtime.write((unit) => {
    const identity = { email: "owner@example.com", passwordHash: null, emailVerified: true, isOperator: true };
    const user = services.users.create(unit, identity);
    const { id } = services.projects.create(unit, user.id, { name: "test" });
    const client = { ip: "127.0.0.1", userAgent: null };
    return {
      key: services.apiKeys.create(unit, id, { name: "test", environment: "DEVELOPMENT" }).key,
      refreshToken: services.sessions.start(unit, user.id, client).refreshToken,
      secret: services.webhooks.create(unit, id, WEBHOOK, COMMAND_LINE).secret,
    };
  });
  const expiresAt = Date.now() + 3_600_000;
  const token = await runtime.jwt.sign("chat-token", "t1", { sub: "alice" }, expiresAt);
  await closeRuntime(runtime);

  expect(() => open(NEW)).toThrow(/STOA_SECRET_PREVIOUS/);
  expect(() => open(NEW, OTHER)).toThrow(/another STOA_SECRET/);

  const during = open(NEW, OLD);
  expect(await during.runtime.jwt.verify("chat-token", token)).toMatchObject({ sub: "alice" });
  expect(() => during.services.apiKeys.verify(key)).not.toThrow();
  const unknown = key.replace(/_[A-Za-z0-9]{16}\./, "_AAAAAAAAAAAAAAAA.");
  expect(() => during.services.apiKeys.verify(unknown)).toThrow(expect.objectContaining({ code: "SVC_AUTH_ERROR" }));
  const renewed = await during.runtime.write((unit) => during.services.sessions.rotate(unit, refreshToken));
  expect(renewed).not.toBeNull();
  await closeRuntime(during.runtime);

  const after = open(NEW);
  await expect(after.runtime.jwt.verify("chat-token", token)).rejects.toThrow();
  const [sealed] = after.runtime.db.$client
    .query<{ text: string }, []>("SELECT sealed_secret AS text FROM webhook_endpoints")
    .all();
  expect(openSecret(after.runtime.keyring, sealed?.text ?? "")).toBe(secret);
  expect(() => after.services.apiKeys.verify(key)).not.toThrow();
  const again = await after.runtime.write((unit) => after.services.sessions.rotate(unit, renewed?.refreshToken ?? ""));
  expect(again).not.toBeNull();
  const { refreshToken: last = "" } = again ?? {};
  expect(await after.runtime.write((unit) => after.services.sessions.endByRefreshToken(unit, last))).toBe(true);
  expect(await after.runtime.write((unit) => after.services.sessions.endByRefreshToken(unit, "unknown"))).toBe(false);
  await closeRuntime(after.runtime);
});

test("a token of neither secret is refused, and one secret's purpose is not another's", async () => {
  const { runtime } = open(NEW, OLD);
  const expiresAt = Date.now() + 3_600_000;
  const token = await runtime.jwt.sign("chat-token", "t2", { sub: "alice" }, expiresAt);
  await expect(runtime.jwt.verify("rtc-token", token)).rejects.toThrow();
  await closeRuntime(runtime);
  const { createJwt } = await import("../../src/kernel/crypto/jwt.ts");
  const forged = await createJwt(createKeyring(OTHER), Date.now).sign("chat-token", "t3", {}, expiresAt);
  await expect(createJwt(createKeyring(NEW, OLD), Date.now).verify("chat-token", forged)).rejects.toThrow();
});

test("a webhook's secret is opened with either, and sealed with the new one", () => {
  const sealed = sealSecret(createKeyring(OLD), "whsec_old");
  const both = createKeyring(NEW, OLD);
  expect(openSecret(both, sealed)).toBe("whsec_old");
  expect(openSecret(createKeyring(NEW), sealed)).toBeNull();
  expect(openSecret(createKeyring(NEW), sealSecret(both, "whsec_old"))).toBe("whsec_old");
});
