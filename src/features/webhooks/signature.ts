import { createHash, createHmac, randomBytes } from "node:crypto";
import { SignJWT } from "jose";
import { type Keyring, openText, sealText } from "../../kernel/crypto/secrets.ts";

const PREFIX = "whsec_";

/** `whsec_<base64>`, the form that verifiers of Standard Webhooks expect. */
export function newSecret(): string {
  return PREFIX + randomBytes(32).toString("base64");
}

/**
 * Signing needs the secret itself, so the database holds it encrypted: nobody can forge signatures with a stolen copy
 * of the database.
 */
export function sealSecret(keyring: Keyring, secret: string): string {
  return sealText(keyring.key("webhook-secret"), secret);
}

/** Null when the secret was encrypted with an unknown master secret. */
export function openSecret(keyring: Keyring, sealed: string): string | null {
  return openText(keyring.accepted("webhook-secret"), sealed);
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

const LIVEKIT_TOKEN_SECONDS = 300;

/** The headers that LiveKit's `WebhookReceiver` expects: a token with the digest of the body, without a scheme. */
export async function livekitHeaders(
  { apiKey, apiSecret }: { apiKey: string; apiSecret: string },
  body: string,
  now: number,
): Promise<Record<string, string>> {
  const seconds = Math.floor(now / 1000);
  const token = await new SignJWT({ sha256: createHash("sha256").update(body).digest("base64") })
    .setProtectedHeader({ alg: "HS256", typ: "JWT" })
    .setIssuer(apiKey)
    .setNotBefore(seconds)
    .setExpirationTime(seconds + LIVEKIT_TOKEN_SECONDS)
    .sign(Buffer.from(apiSecret));
  return { authorization: token, "content-type": "application/webhook+json" };
}
