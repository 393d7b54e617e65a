import { createHmac } from "node:crypto";

/** One-time codes by time (RFC 6238), with the parameters that every authenticator app supports. */
const STEP_SECONDS = 30;
const DIGITS = 6;
/** Clocks of phones deviate a little: the codes before and after the current one are accepted too. */
const TOLERATED_STEPS = 1;
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/** RFC 4648, without padding. */
export function base32(bytes: Uint8Array): string {
  let text = "";
  let bits = 0;
  let value = 0;
  for (const byte of bytes) {
    value = ((value << 8) | byte) & 0xfff;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += ALPHABET[(value >> bits) & 31];
    }
  }
  return bits > 0 ? text + ALPHABET[(value << (5 - bits)) & 31] : text;
}

export function totpCode(secret: Uint8Array, step: number): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const mac = createHmac("sha1", secret).update(counter).digest();
  const offset = (mac.at(-1) ?? 0) & 15;
  return String((mac.readUInt32BE(offset) & 0x7fffffff) % 10 ** DIGITS).padStart(DIGITS, "0");
}

export const totpStep = (nowMs: number): number => Math.floor(nowMs / 1000 / STEP_SECONDS);

/** The time step of a code that is valid now and later than `lastStep`; null for any other. */
export function acceptedStep(secret: Uint8Array, code: string, nowMs: number, lastStep: number): number | null {
  const current = totpStep(nowMs);
  for (let step = current - TOLERATED_STEPS; step <= current + TOLERATED_STEPS; step++) {
    if (step > lastStep && totpCode(secret, step) === code) return step;
  }
  return null;
}

/** The URI of the QR code and link for an authenticator app. */
export function totpUri(secret: Uint8Array, account: string): string {
  const parameters = new URLSearchParams({ secret: base32(secret), issuer: "Stoa" });
  return `otpauth://totp/${encodeURIComponent(`Stoa:${account}`)}?${parameters}`;
}
