/**
 * Checks a program against the signed list of its release: `checksums.txt`, which names the version and, for each platform, the
 * SHA-256 of its program, and `checksums.txt.minisig`, a signature of that list in minisign's format.
 */
import { createHash, createPublicKey, type KeyObject, verify } from "node:crypto";
import { createReadStream, readFileSync } from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { CommandFailure } from "./failure.ts";

type Program = { path: string; version: string; platform: string };

/** The DER bytes before the 32 bytes of an Ed25519 public key. */
const DER_PREFIX = Buffer.from("302a300506032b6570032100", "hex");
const KEY_BYTES = 42;
const SIGNATURE_BYTES = 74;
const COMMENT = /^trusted comment: (.*)$/;

/** Returns the program's SHA-256. Throws unless the list in `folder` is signed with the key and names this program. */
export async function verifyRelease(folder: string, keyText: string, program: Program): Promise<string> {
  const list = read(folder, "checksums.txt");
  const signature = read(folder, "checksums.txt.minisig").toString("latin1");
  if (!isSigned(list, signature, releaseKey(keyText))) {
    throw new CommandFailure(`${join(folder, "checksums.txt")} is not signed with the release key ${keyText}`);
  }
  const [title = "", ...lines] = list.toString("latin1").split("\n");
  if (title !== `# stoa ${program.version}`) {
    throw new CommandFailure(`this is stoa ${program.version}, but the signed list is of ${title.replace("# ", "")}`);
  }
  const name = `stoa-${program.platform}`;
  const [expected, ...others] = lines.filter((line) => line.endsWith(`  ${name}`)).map((line) => line.split("  ")[0]);
  if (expected === undefined || others.length > 0) {
    throw new CommandFailure(`the signed list does not name exactly one ${name}`);
  }
  const actual = createHash("sha256");
  await pipeline(createReadStream(program.path), actual);
  const digest = actual.digest("hex");
  if (digest !== expected) {
    throw new CommandFailure(
      `${program.path} was changed: its SHA-256 is ${digest}, but the signed list says ${expected}`,
    );
  }
  return digest;
}

function read(folder: string, name: string): Buffer {
  try {
    return readFileSync(join(folder, name));
  } catch {
    throw new CommandFailure(
      `${join(folder, name)} cannot be read: install a signed release, or name its folder with --release`,
    );
  }
}

function releaseKey(text: string): KeyObject {
  const bytes = Buffer.from(text, "base64");
  if (bytes.length !== KEY_BYTES || bytes.toString("latin1", 0, 2) !== "Ed") {
    throw new CommandFailure(`--key: "${text}" is no minisign public key, which is 56 characters and begins with RW`);
  }
  const key = Buffer.concat([DER_PREFIX, bytes.subarray(10)]);
  return createPublicKey({ key, format: "der", type: "spki" });
}

/** The first signature covers the BLAKE2b digest of the list; the second covers the first signature and the trusted comment. */
function isSigned(list: Buffer, text: string, key: KeyObject): boolean {
  const [, first = "", trusted = "", second = ""] = text.split("\n");
  const signed = Buffer.from(first, "base64");
  const comment = COMMENT.exec(trusted)?.[1];
  if (signed.length !== SIGNATURE_BYTES || signed.toString("latin1", 0, 2) !== "ED" || comment === undefined)
    return false;
  const signature = signed.subarray(10);
  const digest = createHash("blake2b512").update(list).digest();
  const whole = Buffer.concat([signature, Buffer.from(comment, "latin1")]);
  return verify(null, digest, key, signature) && verify(null, whole, key, Buffer.from(second, "base64"));
}
