import { createHash, createPrivateKey, createPublicKey, type KeyObject, sign } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Of a signature over the BLAKE2b-512 of a file, and of a key; the two-byte names that minisign gives them. */
const PREHASHED = Buffer.from("ED");
const ED25519 = Buffer.from("Ed");
const KEY_LINE = /^release_key=''$/m;

/**
 * The key that releases are signed with: an Ed25519 key as PEM (`openssl genpkey -algorithm ed25519`), from
 * STOA_SIGNING_KEY_FILE or STOA_SIGNING_KEY. Null when none is given.
 */
export function signingKey(env: Record<string, string | undefined>): KeyObject | null {
  const { STOA_SIGNING_KEY_FILE: path, STOA_SIGNING_KEY: text } = env;
  const pem = path ? readFileSync(path, "utf8") : text;
  if (!pem) return null;
  const key = createPrivateKey(pem);
  if (key.asymmetricKeyType !== "ed25519") throw new Error("the signing key must be an Ed25519 key");
  return key;
}

/** As `minisign -P` takes it. The number of a key is random there; ours follows from the key. */
export function publicKeyText(key: KeyObject): string {
  const raw = rawPublicKey(key);
  return Buffer.concat([ED25519, keyNumber(raw), raw]).toString("base64");
}

/** What `minisign -V` reads beside a file, as NAME.minisig. */
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

/** Signs the list of a release, and lets the install.sh beside it ask for that key. */
export function signRelease(folder: string, key: KeyObject, at: number): void {
  const list = readFileSync(join(folder, "checksums.txt"));
  const comment = `timestamp:${Math.floor(at / 1000)}\tfile:checksums.txt\thashed`;
  writeFileSync(join(folder, "checksums.txt.minisig"), minisig(key, list, comment));
  const script = readFileSync(join(folder, "install.sh"), "utf8");
  if (!KEY_LINE.test(script)) throw new Error("install.sh has no place for the release key");
  writeFileSync(join(folder, "install.sh"), script.replace(KEY_LINE, `release_key='${publicKeyText(key)}'`));
}

/** The last 32 bytes of its DER. */
function rawPublicKey(key: KeyObject): Buffer {
  return createPublicKey(key).export({ type: "spki", format: "der" }).subarray(-32);
}

function keyNumber(rawKey: Buffer): Buffer {
  return createHash("sha256").update(rawKey).digest().subarray(0, 8);
}
