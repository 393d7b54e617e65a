import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes, timingSafeEqual } from "node:crypto";
import { chmodSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { writeDurably } from "../durable-file.ts";

/** Each purpose has its own key, so that no credential is valid for another purpose. */
export type KeyPurpose =
  | "session"
  | "chat-token"
  | "rtc-token"
  | "api-key"
  | "storage-url"
  | "recording-url"
  | "recording-view"
  | "live-stream-hls"
  | "one-time"
  | "refresh-token"
  | "totp"
  | "webhook-secret"
  | "turn"
  | "node-key"
  | "session-record"
  | "livekit-secret"
  | "vapid"
  | "erasure"
  | "token-cutoff"
  | "cluster"
  | "commit-log"
  | "media-nodes"
  | "kept-keys";

/** The purposes whose values are used for longer than STOA_SECRET_PREVIOUS is set, and cannot be made again by the server. */
const KEPT_PURPOSES = [
  "totp",
  "one-time",
  "livekit-secret",
  "node-key",
  "media-nodes",
  "vapid",
  "token-cutoff",
  "erasure",
] as const satisfies KeyPurpose[];
type KeptPurpose = (typeof KEPT_PURPOSES)[number];

/** Keys derived from a former master secret, for values that were made before the time `until`. */
export type KeptKeys = { until: number; keys: Record<KeptPurpose, string> };

export type Keyring = {
  key(purpose: KeyPurpose): Uint8Array;
  /** HMAC-SHA-256 in hex, which the database stores in place of a secret. */
  digest(purpose: KeyPurpose, text: string): string;
  /** The accepted keys: those of the current and the previous master secret, and those that were kept of earlier ones. */
  accepted(purpose: KeyPurpose): Uint8Array[];
  /** The key from which a secret made at this time was derived, so that the secret outlives a change of STOA_SECRET. */
  keyAt(purpose: KeptPurpose, at: number): Uint8Array;
  /** The digests that the database may contain for this secret: one for each accepted key, the current key first. */
  acceptedDigests(purpose: KeyPurpose, text: string): string[];
  /** Whether this is the digest of the text by an accepted key. */
  isDigest(purpose: KeyPurpose, text: string, digest: string): boolean;
  /** The keyring of the previous master secret; null when none is set. */
  readonly previous: Keyring | null;
  /** Identifies the master secret without revealing it. */
  readonly fingerprint: string;
};

/**
 * New credentials are made with the master secret; those made with the previous one stay valid while it is configured.
 */
export function createKeyring(masterSecret: string, previousSecret?: string, kept: readonly KeptKeys[] = []): Keyring {
  const previous = previousSecret === undefined ? null : createKeyring(previousSecret);
  const keys = new Map<KeyPurpose, Uint8Array>();
  const key = (purpose: KeyPurpose) => {
    const known = keys.get(purpose);
    if (known) return known;
    const made = new Uint8Array(hkdfSync("sha256", masterSecret, "", `stoa ${purpose}`, 32));
    keys.set(purpose, made);
    return made;
  };
  const digestWith = (key: Uint8Array, text: string) => new Bun.CryptoHasher("sha256", key).update(text).digest("hex");
  const keptKeys = kept.map((former) => ({ until: former.until, of: decodedKeys(former) }));
  const accepted = (purpose: KeyPurpose) => {
    const former = keptKeys.flatMap(({ of }) => of.get(purpose) ?? []);
    const keys = [key(purpose), ...(previous === null ? [] : [previous.key(purpose)]), ...former];
    return keys.filter((one, index) => keys.findIndex((other) => Buffer.compare(one, other) === 0) === index);
  };
  const acceptedDigests = (purpose: KeyPurpose, text: string) => accepted(purpose).map((key) => digestWith(key, text));
  return {
    key,
    digest: (purpose, text) => digestWith(key(purpose), text),
    accepted,
    acceptedDigests,
    isDigest: (purpose, text, digest) => acceptedDigests(purpose, text).some((one) => sameSecret(digest, one)),
    keyAt: (purpose, at) => keptKeys.find(({ until }) => at < until)?.of.get(purpose) ?? key(purpose),
    previous,
    fingerprint: createHmac("sha256", masterSecret).update("stoa fingerprint").digest("hex").slice(0, 32),
  };
}

/** The derived keys to keep when the master secret is replaced at the time `until`. */
export function keysToKeep(keyring: Keyring, until: number): KeptKeys {
  const encoded = KEPT_PURPOSES.map((purpose) => [purpose, Buffer.from(keyring.key(purpose)).toString("base64url")]);
  return { until, keys: Object.fromEntries(encoded) as KeptKeys["keys"] };
}

function decodedKeys({ keys }: KeptKeys): Map<KeyPurpose, Uint8Array> {
  return new Map(Object.entries(keys).map(([purpose, key]) => [purpose as KeptPurpose, Buffer.from(key, "base64url")]));
}

const IV_BYTES = 12;
const TAG_BYTES = 16;

/** Encrypts a secret that the database has to contain (AES-256-GCM), so that a stolen copy of the file does not reveal it. */
export function sealText(key: Uint8Array, text: string): string {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv("aes-256-gcm", key, iv);
  const sealed = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  return Buffer.concat([iv, cipher.getAuthTag(), sealed]).toString("base64url");
}

/** Null if the text was sealed with none of these keys. */
export function openText(keys: readonly Uint8Array[], sealed: string): string | null {
  const bytes = Buffer.from(sealed, "base64url");
  const tagEnd = IV_BYTES + TAG_BYTES;
  for (const key of keys) {
    const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, IV_BYTES));
    decipher.setAuthTag(bytes.subarray(IV_BYTES, tagEnd));
    try {
      return Buffer.concat([decipher.update(bytes.subarray(tagEnd)), decipher.final()]).toString("utf8");
    } catch {
      // The text may have been sealed with the next key.
    }
  }
  return null;
}

const MIN_CHARACTERS = 16;

/** A secret file has no valid content: continuing would sign tokens with a guessable key. */
export class SecretRefused extends Error {
  override readonly name = "SecretRefused";
  constructor(path: string) {
    super(`${path} contains no secret. Restore it from a backup, or remove the file to generate a new secret.`);
  }
}

/** A secret of the installation, generated once and stored in the data directory. */
export function secretFromFile(dataDir: string, name: string): string {
  const path = join(dataDir, name);
  if (existsSync(path)) {
    chmodSync(path, 0o600);
    const kept = readFileSync(path, "utf8").trim();
    if (kept.length < MIN_CHARACTERS) throw new SecretRefused(path);
    return kept;
  }
  const secret = randomBytes(32).toString("base64url");
  writeDurably(path, `${secret}\n`);
  return secret;
}

/** Compares in constant time for equal lengths; the length of the expected secret is not confidential. */
export function sameSecret(given: string, expected: string): boolean {
  const a = Buffer.from(given);
  const b = Buffer.from(expected);
  return a.length === b.length && timingSafeEqual(a, b);
}
