import { expect, test } from "bun:test";
import { createECDH, createPublicKey, verify } from "node:crypto";
import { encryptPush, MAX_PLAINTEXT_BYTES, receiverKeys } from "../../../src/features/push/encryption.ts";
import { createVapid } from "../../../src/features/push/vapid.ts";
import { createKeyring } from "../../../src/kernel/crypto/secrets.ts";
import { testConfig } from "../../harness/test-config.ts";
import { decryptPush, newBrowser } from "./browser.ts";

const bytes = (text: string) => Buffer.from(text, "base64url");

test("[RFC 8291, 5 and appendix A] the example of the RFC is reproduced to the byte", () => {
  const keys = receiverKeys(
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
    "BTBZMqHH6r4Tts7J_aSIgg",
  );
  if (!keys) throw new Error("the keys of the example are good");
  const oneTime = {
    privateKey: bytes("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"),
    salt: bytes("DGv6ra1nlYgDCS1FRnbzlw"),
  };
  const plaintext = Buffer.from("When I grow up, I want to be a watermelon");
  expect(encryptPush(plaintext, keys, oneTime).toString("base64url")).toBe(
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN",
  );
});

test("only the browser can decrypt a push of any size up to the limit, and no two are alike", () => {
  const browser = newBrowser();
  const keys = receiverKeys(browser.keys.p256dh, browser.keys.auth);
  if (!keys) throw new Error("the keys are good");
  for (const size of [0, 1, 300, MAX_PLAINTEXT_BYTES]) {
    const plaintext = Buffer.alloc(size, "x");
    const sealed = encryptPush(plaintext, keys);
    expect(sealed.length).toBeLessThanOrEqual(4096);
    expect(decryptPush(browser, sealed).equals(plaintext)).toBe(true);
    expect(encryptPush(plaintext, keys).equals(sealed)).toBe(false);
  }
  expect(() => encryptPush(Buffer.alloc(MAX_PLAINTEXT_BYTES + 1), keys)).toThrow(RangeError);
  expect(() => decryptPush(newBrowser(), encryptPush(Buffer.from("secret"), keys))).toThrow();
});

test("invalid browser keys are refused", () => {
  const { p256dh, auth } = newBrowser().keys;
  const off = bytes(p256dh);
  off[64] = (off[64] ?? 0) ^ 1;
  expect(receiverKeys(off.toString("base64url"), auth)).toBeNull();
  expect(receiverKeys(p256dh, bytes(auth).subarray(1).toString("base64url"))).toBeNull();
  expect(receiverKeys("", "")).toBeNull();
});

test("[RFC 8292] the token names the origin of the push service, expires within a day, and verifies with the public key", () => {
  const vapid = createVapid(testConfig({ PUSH_SUBJECT: "mailto:ops@example.com" }), createKeyring("a master secret"));
  const now = Date.parse("2026-03-01T12:00:00.000Z");
  const header = vapid.authorization("https://push.example.com:8443/send/abc?x=1", now);
  const [, token = "", k] = /^vapid t=([\w.-]+), k=([\w-]+)$/.exec(header) ?? [];
  expect(k).toBe(vapid.publicKey);
  const [head = "", claims = "", signature = ""] = token.split(".");
  expect(JSON.parse(bytes(head).toString())).toEqual({ typ: "JWT", alg: "ES256" });
  expect(JSON.parse(bytes(claims).toString())).toEqual({
    aud: "https://push.example.com:8443",
    exp: now / 1000 + 12 * 3600,
    sub: "mailto:ops@example.com",
  });
  const point = bytes(vapid.publicKey);
  const jwk = { kty: "EC", crv: "P-256", x: point.subarray(1, 33).toString("base64url") };
  const key = createPublicKey({ format: "jwk", key: { ...jwk, y: point.subarray(33).toString("base64url") } });
  const signed = Buffer.from(`${head}.${claims}`);
  expect(verify("sha256", signed, { key, dsaEncoding: "ieee-p1363" }, bytes(signature))).toBe(true);
  // The same installation, the same key; another one, another key; a given one, that.
  expect(createVapid(testConfig({}), createKeyring("a master secret")).publicKey).toBe(vapid.publicKey);
  expect(createVapid(testConfig({}), createKeyring("another one")).publicKey).not.toBe(vapid.publicKey);
  const own = createECDH("prime256v1");
  own.generateKeys();
  const given = testConfig({ PUSH_VAPID_PRIVATE_KEY: own.getPrivateKey().toString("base64url").padStart(43, "A") });
  expect(createVapid(given, createKeyring("x")).publicKey).toBe(own.getPublicKey("base64url"));
});
