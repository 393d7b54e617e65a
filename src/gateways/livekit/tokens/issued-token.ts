import { SignJWT } from "jose";
import type { Now } from "../../../kernel/time/clock.ts";
import type { Signers } from "./claims.ts";

/** Signs tokens of LiveKit's kind in a key's name, as the backend that holds its secret would. */
export function createTokenWriter({ signingSecret }: Pick<Signers, "signingSecret">, now: Now) {
  return (publicId: string, identity: string, claims: Record<string, unknown>, expiresAt: number): Promise<string> =>
    new SignJWT(claims)
      .setProtectedHeader({ alg: "HS256", typ: "JWT" })
      .setIssuer(publicId)
      .setSubject(identity)
      .setNotBefore(Math.floor(now() / 1000))
      .setExpirationTime(Math.ceil(expiresAt / 1000))
      .sign(Buffer.from(signingSecret(publicId)));
}

export type WriteToken = ReturnType<typeof createTokenWriter>;
