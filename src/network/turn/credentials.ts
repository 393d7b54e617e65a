/**
 * Expiring credentials in the format of coturn and others: the username contains the expiry and the session's id, the
 * password is its HMAC. A server with the secret need not store them.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { Address } from "./address.ts";

type TurnCredential = { username: string; credential: string };

export function turnCredential(secret: string, id: string, expiresAtMs: number): TurnCredential {
  const username = `${Math.floor(expiresAtMs / 1_000)}:${id}`;
  return { username, credential: passwordOf(secret, username) };
}

export function passwordOf(secret: string, username: string): string {
  return createHmac("sha1", secret).update(username).digest("base64");
}

export function readUsername(username: string): { id: string; expiresAtMs: number } | undefined {
  const { expiry, id } = /^(?<expiry>\d{1,12}):(?<id>.{1,200})$/.exec(username)?.groups ?? {};
  return id === undefined ? undefined : { id, expiresAtMs: Number(expiry) * 1_000 };
}

const NONCE_LIFETIME_MS = 3_600_000;
const NONCE_MAC_CHARACTERS = 16;

/** The server stores no nonces: a nonce contains its time and a MAC over the client's address. */
export function makeNonce(secret: string, client: Address, nowMs: number): string {
  const time = nowMs.toString(36);
  return `${time}.${nonceMac(secret, client, time)}`;
}

export function isNonceFresh(nonce: string, secret: string, client: Address, nowMs: number): boolean {
  const [time = "", mac = ""] = nonce.split(".");
  const given = Buffer.from(mac);
  const expected = Buffer.from(nonceMac(secret, client, time));
  // Lengths are compared in bytes, because strings of equal length in characters may differ in bytes.
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return false;
  const age = nowMs - Number.parseInt(time, 36);
  return age >= 0 && age < NONCE_LIFETIME_MS;
}

function nonceMac(secret: string, { address, port }: Address, time: string): string {
  const mac = createHmac("sha256", secret).update(`nonce ${time} ${address} ${port}`).digest("base64url");
  return mac.slice(0, NONCE_MAC_CHARACTERS);
}
