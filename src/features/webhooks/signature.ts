import { createCipheriv, createDecipheriv, createHmac, randomBytes } from "node:crypto";
import type { Keyring } from "../../kernel/crypto/secrets.ts";

const PREFIX = "whsec_";
const IV_BYTES = 12;
const TAG_BYTES = 16;

/** `whsec_<base64>`, the form that verifiers of Standard Webhooks expect. */
export function newSecret(): string {
  return PREFIX + randomBytes(32).toString("base64");
}

/**
 * Signing needs the secret itself, so the database holds it encrypted: nobody can forge signatures with a stolen copy
 * of the database.
 */
export function sealSecret(keyring: Keyring, secret: string): string {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv("aes-256-gcm", keyring.key("webhook-secret"), iv);
  const sealed = Buffer.concat([cipher.update(secret, "utf8"), cipher.final()]);
  return Buffer.concat([iv, cipher.getAuthTag(), sealed]).toString("base64url");
}

/** Null when the secret was encrypted with an unknown master secret. */
export function openSecret(keyring: Keyring, sealed: string): string | null {
  for (const key of keyring.accepted("webhook-secret")) {
    const secret = openWith(key, sealed);
    if (secret !== null) return secret;
  }
  return null;
}

function openWith(key: Uint8Array, sealed: string): string | null {
  const bytes = Buffer.from(sealed, "base64url");
  const tagEnd = IV_BYTES + TAG_BYTES;
  const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, IV_BYTES));
  decipher.setAuthTag(bytes.subarray(IV_BYTES, tagEnd));
  try {
    return Buffer.concat([decipher.update(bytes.subarray(tagEnd)), decipher.final()]).toString("utf8");
  } catch {
    return null;
  }
}

/**
 * The HMAC of `svc-signature` is keyed with the text of the secret, the Standard Webhooks headers with its decoded
 * bytes.
 */
export function signatureHeaders(
  secrets: readonly string[],
  eventId: string,
  body: string,
  now: number,
): Record<string, string> {
  const seconds = Math.floor(now / 1000);
  const own = secrets.map((secret) => createHmac("sha256", secret).update(`${seconds}.${body}`).digest("hex"));
  const standard = secrets.map((secret) =>
    createHmac("sha256", Buffer.from(secret.slice(PREFIX.length), "base64"))
      .update(`${eventId}.${seconds}.${body}`)
      .digest("base64"),
  );
  return {
    "svc-signature": [`t=${seconds}`, ...own.map((hex) => `v1=${hex}`)].join(","),
    "svc-event-id": eventId,
    "webhook-id": eventId,
    "webhook-timestamp": String(seconds),
    "webhook-signature": standard.map((base64) => `v1,${base64}`).join(" "),
  };
}
