import { errors, jwtVerify, SignJWT } from "jose";
import { ApiError } from "../../protocol/errors.ts";
import type { Now } from "../time/clock.ts";
import type { Keyring } from "./secrets.ts";

const REQUIRED_CLAIMS = ["jti", "exp", "iat"];

export type TokenKind = "session" | "chat-token" | "rtc-token";

export type Claims = { jti: string; iat: number; exp: number } & Record<string, unknown>;

export type Jwt = {
  /** `expiresAt` is in milliseconds; the token has whole seconds. */
  sign(kind: TokenKind, tokenId: string, claims: Record<string, unknown>, expiresAt: number): Promise<string>;
  verify(kind: TokenKind, token: string): Promise<Claims>;
  /** Like `verify`, but also accepts an expired token. */
  read(kind: TokenKind, token: string): Promise<Claims>;
};

/** HS256 with a key and an audience for each kind, so that a chat token is never accepted as a session. */
export function createJwt(keyring: Keyring, now: Now): Jwt {
  async function check(kind: TokenKind, token: string, currentDate: Date): Promise<Claims> {
    const [, previous] = keyring.accepted(kind);
    const options = { algorithms: ["HS256"], audience: `stoa:${kind}`, currentDate, requiredClaims: REQUIRED_CLAIMS };
    const verify = async (key: Uint8Array) => (await jwtVerify(token, key, options)).payload as Claims;
    try {
      return await verify(keyring.key(kind)).catch((error: unknown) => {
        if (previous === undefined || !(error instanceof errors.JWSSignatureVerificationFailed)) throw error;
        return verify(previous);
      });
    } catch (error) {
      throw new ApiError(error instanceof errors.JWTExpired ? "SVC_TOKEN_EXPIRED" : "SVC_AUTH_ERROR");
    }
  }

  return {
    sign: (kind, tokenId, claims, expiresAt) =>
      new SignJWT(claims)
        .setProtectedHeader({ alg: "HS256", typ: "JWT" })
        .setAudience(`stoa:${kind}`)
        .setJti(tokenId)
        .setIssuedAt(Math.floor(now() / 1000))
        .setExpirationTime(Math.floor(expiresAt / 1000))
        .sign(keyring.key(kind)),
    verify: (kind, token) => check(kind, token, new Date(now())),
    // The time is the epoch, at which no token has expired.
    read: (kind, token) => check(kind, token, new Date(0)),
  };
}
