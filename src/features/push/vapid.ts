import { createECDH, createPrivateKey, type KeyObject, sign } from "node:crypto";
import type { Config } from "../../kernel/config/index.ts";
import type { Keyring } from "../../kernel/crypto/secrets.ts";

const CURVE = "prime256v1";
/** RFC 8292 allows a day; half of it leaves room for wrong clocks. */
const LIFETIME_SECONDS = 12 * 3600;
const RENEW_BEFORE_SECONDS = 3600;
/** The maximum number of push services whose tokens are cached. */
const MAX_ORIGINS = 256;

export type Vapid = ReturnType<typeof createVapid>;

/**
 * Identifies this server to push services (RFC 8292). The key is derived from the first master secret, so that a restored
 * server still reaches its subscriptions; PUSH_VAPID_PRIVATE_KEY sets another key.
 */
export function createVapid(config: Config, keyring: Keyring) {
  const ecdh = createECDH(CURVE);
  ecdh.setPrivateKey(privateBytes(config, keyring));
  const point = ecdh.getPublicKey();
  const publicKey = point.toString("base64url");
  const privateKey = createPrivateKey({
    format: "jwk",
    key: {
      kty: "EC",
      crv: "P-256",
      d: ecdh.getPrivateKey().toString("base64url"),
      x: point.subarray(1, 33).toString("base64url"),
      y: point.subarray(33).toString("base64url"),
    },
  });
  const sub = subjectOf(config);
  const tokens = new Map<string, { token: string; exp: number }>();

  return {
    /** The `applicationServerKey` of `pushManager.subscribe`. */
    publicKey,

    /** The authorization header for the push service of this endpoint. */
    authorization(endpoint: string, now: number): string {
      const { origin: aud } = new URL(endpoint);
      const seconds = Math.floor(now / 1000);
      const known = tokens.get(aud);
      if (known && known.exp - seconds > RENEW_BEFORE_SECONDS) return header(known.token);
      const exp = seconds + LIFETIME_SECONDS;
      const token = signed({ aud, exp, ...(sub === null ? {} : { sub }) }, privateKey);
      if (tokens.size >= MAX_ORIGINS) tokens.clear();
      tokens.set(aud, { token, exp });
      return header(token);
    },
  };

  function header(token: string): string {
    return `vapid t=${token}, k=${publicKey}`;
  }
}

function privateBytes({ PUSH_VAPID_PRIVATE_KEY: key }: Config, keyring: Keyring): Uint8Array {
  return key === undefined ? keyring.keyAt("vapid", 0) : Buffer.from(key, "base64url");
}

/** The contact for the operators of push services; some require it. */
function subjectOf({ PUSH_SUBJECT, PUBLIC_URL, MAIL_FROM }: Config): string | null {
  if (PUSH_SUBJECT !== undefined) return PUSH_SUBJECT;
  if (PUBLIC_URL?.startsWith("https://")) return PUBLIC_URL;
  const address = /[^\s<>]+@[^\s<>]+/.exec(MAIL_FROM ?? "")?.[0];
  return address === undefined || address.endsWith("@localhost") ? null : `mailto:${address}`;
}

function signed(claims: object, key: KeyObject): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const text = `${part({ typ: "JWT", alg: "ES256" })}.${part(claims)}`;
  const signature = sign("sha256", Buffer.from(text), { key, dsaEncoding: "ieee-p1363" });
  return `${text}.${signature.toString("base64url")}`;
}
