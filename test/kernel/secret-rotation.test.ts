import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { nodeSecret } from "../../src/cluster/cluster.ts";
import { totpCode, totpStep } from "../../src/features/accounts/second-factor/totp.ts";
import { digestsOf } from "../../src/features/privacy/erasure-list.ts";
import { createVapid } from "../../src/features/push/vapid.ts";
import { createTokenCutoffs } from "../../src/features/rooms/token-cutoffs.ts";
import { createUrlSigner } from "../../src/features/storage/signed-url.ts";
import { openSecret, sealSecret } from "../../src/features/webhooks/signature.ts";
import { COMMAND_LINE } from "../../src/kernel/author.ts";
import { createKeyring } from "../../src/kernel/crypto/secrets.ts";
import { closeRuntime, createRuntime } from "../../src/kernel/runtime.ts";
import { createMediaNodes } from "../../src/nodes/media-nodes.ts";
import { createServices } from "../../src/services.ts";
import { secretOf } from "../harness/authenticator.ts";
import { fakeClock } from "../harness/clock.ts";
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

test("secrets derived from STOA_SECRET stay valid through two changes of it, and later ones come from the new secret", async () => {
  const DATA_DIR = mkdtempSync(join(tmpdir(), "stoa-derived-"));
  const THIRD = "t".repeat(32);
  const clock = fakeClock();
  const openAt = async (STOA_SECRET: string, STOA_SECRET_PREVIOUS?: string) => {
    // Time passes between two starts, and a code of the authenticator app counts once.
    clock.advance(60_000);
    const config = testConfig({ DATA_DIR, STOA_SECRET, STOA_SECRET_PREVIOUS });
    const runtime = createRuntime(config, { now: clock.now, timers: clock });
    const services = createServices(runtime, createMediaNodes(runtime.timers));
    await runtime.write(() => {});
    return { runtime, ...services };
  };

  const first = await openAt(OLD);
  const { user, id, publicId, node, totp } = await first.runtime.write((unit) => {
    const identity = { email: "owner@example.com", passwordHash: null, emailVerified: true, isOperator: true };
    const user = first.users.create(unit, identity);
    const { id } = first.projects.create(unit, user.id, { name: "test" });
    const { publicId } = first.apiKeys.create(unit, id, { name: "test", environment: "DEVELOPMENT" });
    return { user, id, publicId, node: first.nodeKeys.create(unit, "eu-1"), totp: first.factors.startTotp(unit, user) };
  });
  const code = () => totpCode(secretOf(totp.secret), totpStep(clock.now()));
  const { recoveryCodes } = await first.runtime.write((unit) => first.factors.confirmTotp(unit, user.id, code()));
  const codes = [...(recoveryCodes ?? [])];
  const tenant = { projectId: id, environment: "DEVELOPMENT" as const };
  const removed = { ...tenant, roomName: "hall", identity: "eve" };
  const signedAt = clock.now();
  await first.runtime.write((unit) => createTokenCutoffs(first.runtime).cutOff(unit, removed));
  const derived = ({ runtime, apiKeys }: typeof first) => ({
    livekit: apiKeys.signingSecret(publicId),
    vapid: createVapid(runtime.config, runtime.keyring).publicKey,
    nodes: nodeSecret(runtime.keyring),
  });
  const expected = derived(first);
  await closeRuntime(first.runtime);

  for (const secrets of [[NEW, OLD], [NEW], [THIRD, NEW], [THIRD]] as [string, string?][]) {
    const server = await openAt(...secrets);
    expect(derived(server)).toEqual(expected);
    expect(server.nodeKeys.verify(node.secret)).toMatchObject({ name: "eu-1" });
    await server.factors.verifyCode(user.id, code());
    await server.factors.verifyCode(user.id, codes.pop() ?? "");
    expect(createTokenCutoffs(server.runtime).isVoid(removed, signedAt)).toBe(true);
    await closeRuntime(server.runtime);
  }

  const last = await openAt(THIRD);
  const { later, laterNode } = await last.runtime.write((unit) => ({
    later: last.apiKeys.create(unit, id, { name: "later", environment: "DEVELOPMENT" }).publicId,
    laterNode: last.nodeKeys.create(unit, "eu-2").secret,
  }));
  // A secret that leaked must not make the keys that replace those of its time.
  for (const former of [OLD, NEW]) {
    expect(last.apiKeys.signingSecret(later)).not.toBe(createKeyring(former).digest("livekit-secret", later));
  }
  expect(last.apiKeys.signingSecret(later)).toBe(createKeyring(THIRD).digest("livekit-secret", later));
  expect(last.nodeKeys.verify(laterNode)).toMatchObject({ name: "eu-2" });
  await closeRuntime(last.runtime);

  // Without the previous secret everything of before is given up.
  const config = testConfig({ DATA_DIR, STOA_SECRET: OTHER });
  const given = createRuntime(config, { now: clock.now, timers: clock, rotateSecret: true });
  expect(createServices(given).apiKeys.signingSecret(publicId)).not.toBe(expected.livekit);
  await closeRuntime(given);
  rmSync(DATA_DIR, { recursive: true, force: true });
});

test("signed addresses and erasures of the previous secret are valid while it is set", () => {
  const now = Date.now;
  const file = { id: "a1", size: 1, mimeType: "text/plain" };
  const { searchParams } = new URL(createUrlSigner(createKeyring(OLD), now).sign("https://x", file, "GET", 60));
  expect(createUrlSigner(createKeyring(NEW, OLD), now).check("GET", "a1", searchParams)).toMatchObject({ id: "a1" });
  expect(() => createUrlSigner(createKeyring(NEW), now).check("GET", "a1", searchParams)).toThrow();
  const user = { projectId: "p1", environment: "DEVELOPMENT" as const, userId: "eve" };
  const [digest = ""] = digestsOf(createKeyring(OLD), user);
  expect(digestsOf(createKeyring(NEW, OLD), user)).toContain(digest);
});
