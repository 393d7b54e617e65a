import { REFRESH_TOKEN_SECONDS } from "./session.service.ts";

const NAME = "stoa_refresh";
/** Sent to the auth routes alone, never by another site, and out of reach of scripts. */
const ATTRIBUTES = { path: "/v1/auth", httpOnly: true, sameSite: "strict" } as const;

export function readRefreshCookie(header: string | undefined): string | null {
  return new Bun.CookieMap(header ?? "").get(NAME);
}

export function refreshCookie(refreshToken: string, secure: boolean): string {
  return new Bun.Cookie(NAME, refreshToken, { ...ATTRIBUTES, secure, maxAge: REFRESH_TOKEN_SECONDS }).toString();
}

export function clearedRefreshCookie(secure: boolean): string {
  return new Bun.Cookie(NAME, "", { ...ATTRIBUTES, secure, maxAge: 0 }).toString();
}
