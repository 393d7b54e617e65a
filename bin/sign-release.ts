import { createHash, createPrivateKey, createPublicKey, type KeyObject, sign } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** minisign's two-byte algorithm names for a signature over the BLAKE2b-512 of a file and for a key. */
const PREHASHED = Buffer.from("ED");
const ED25519 = Buffer.from("Ed");
const KEY_LINE = /^release_key=''$/m;

/**
 * The key that releases are signed with: an Ed25519 key as PEM (`openssl genpkey -algorithm ed25519`), from
 * STOA_SIGNING_KEY_FILE or STOA_SIGNING_KEY. Null if neither is set.
 */
export function signingKey(env: Record<string, string | undefined>): KeyObject | null {
  const { STOA_SIGNING_KEY_FILE: path, STOA_SIGNING_KEY: text } = env;
  const pem = path ? readFileSync(path, "utf8") : text;
  if (!pem) return null;
  const key = createPrivateKey(pem);
  if (key.asymmetricKeyType !== "ed25519") throw new Error("the signing key must be an Ed25519 key");
  return key;
}

/** The public key for `minisign -P`. Its key number is random in minisign; ours is derived from the key. */
export function publicKeyText(key: KeyObject): string {
  const raw = rawPublicKey(key);
  return Buffer.concat([ED25519, keyNumber(raw), raw]).toString("base64");
}

/** The signature file NAME.minisig for `minisign -V`. */
export function minisig(key: KeyObject, content: Uint8Array, comment: string): string {
  const signature = sign(null, createHash("blake2b512").update(content).digest(), key);
  const signed = Buffer.concat([PREHASHED, keyNumber(rawPublicKey(key)), signature]);
  const whole = sign(null, Buffer.concat([signature, Buffer.from(comment)]), key);
  return [
    "untrusted comment: signature of a Stoa release",
    signed.toString("base64"),
    `trusted comment: ${comment}`,
    whole.toString("base64"),
    "",
  ].join("\n");
}

/** Signs a release's list of checksums and puts the public key into its install.sh. */
export function signRelease(folder: string, key: KeyObject, at: number): void {
  const list = readFileSync(join(folder, "checksums.txt"));
  const comment = `timestamp:${Math.floor(at / 1000)}\tfile:checksums.txt\thashed`;
  writeFileSync(join(folder, "checksums.txt.minisig"), minisig(key, list, comment));
  const script = readFileSync(join(folder, "install.sh"), "utf8");
  if (!KEY_LINE.test(script)) throw new Error("install.sh has no place for the release key");
  writeFileSync(join(folder, "install.sh"), script.replace(KEY_LINE, `release_key='${publicKeyText(key)}'`));
}

/** The raw key is the last 32 bytes of its DER encoding. */
function rawPublicKey(key: KeyObject): Buffer {
  return createPublicKey(key).export({ type: "spki", format: "der" }).subarray(-32);
}

function keyNumber(rawKey: Buffer): Buffer {
  return createHash("sha256").update(rawKey).digest().subarray(0, 8);
}
