import { createHmac, hkdfSync, randomBytes, timingSafeEqual } from "node:crypto";
import { chmodSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { writeDurably } from "../data-directory/durable-file.ts";

/** Each purpose has its own key, so that no credential is valid for another purpose. */
type KeyPurpose =
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
  | "media-nodes";

export type Keyring = {
  key(purpose: KeyPurpose): Uint8Array;
  /** HMAC-SHA-256 in hex, which the database stores in place of a secret. */
  digest(purpose: KeyPurpose, text: string): string;
  /** The accepted keys: the key of the master secret, then the key of the previous one while it is set. */
  accepted(purpose: KeyPurpose): Uint8Array[];
  /** The digests that the database may contain for this secret: one for each accepted key, the current key first. */
  acceptedDigests(purpose: KeyPurpose, text: string): string[];
  /** Fingerprint of the previous master secret; null when none is set. */
  readonly previousFingerprint: string | null;
  /** Identifies the master secret without revealing it. */
  readonly fingerprint: string;
};

/**
 * New credentials are made with the master secret; those made with the previous one stay valid while it is configured.
 */
export function createKeyring(masterSecret: string, previousSecret?: string): Keyring {
  const previous = previousSecret === undefined ? null : createKeyring(previousSecret);
  const keys = new Map<KeyPurpose, Uint8Array>();
  const key = (purpose: KeyPurpose) => {
    const known = keys.get(purpose);
    if (known) return known;
    const made = new Uint8Array(hkdfSync("sha256", masterSecret, "", `stoa ${purpose}`, 32));
    keys.set(purpose, made);
    return made;
  };
  const digest = (purpose: KeyPurpose, text: string) =>
    new Bun.CryptoHasher("sha256", key(purpose)).update(text).digest("hex");
  return {
    key,
    digest,
    accepted: (purpose) => (previous === null ? [key(purpose)] : [key(purpose), previous.key(purpose)]),
    acceptedDigests: (purpose, text) =>
      previous === null ? [digest(purpose, text)] : [digest(purpose, text), previous.digest(purpose, text)],
    previousFingerprint: previous?.fingerprint ?? null,
    fingerprint: createHmac("sha256", masterSecret).update("stoa fingerprint").digest("hex").slice(0, 32),
  };
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
