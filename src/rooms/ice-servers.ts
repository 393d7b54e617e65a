import { createHmac } from "node:crypto";
import type { Config } from "../kernel/config/index.ts";
import type { IceServer } from "../protocol/room-records.ts";

/**
 * TURN credentials that die by themselves (the static-auth-secret scheme of coturn and others): the name holds the
 * time they end, the password is its HMAC. Without TURN_URLS the list is empty: the media node's own addresses are in
 * its answer, no STUN server is needed to reach it.
 */
export function iceServersFor(config: Config, identity: string, expiresAt: number): IceServer[] {
  const { TURN_URLS: urls, TURN_SECRET: secret } = config;
  if (urls.length === 0 || secret === undefined) return [];
  const username = `${Math.floor(expiresAt / 1000)}:${identity}`;
  return [{ urls: [...urls], username, credential: createHmac("sha1", secret).update(username).digest("base64") }];
}
