import type { RequestInfo } from "../../kernel/http/request-info.ts";
import { REFRESH_TOKEN_SECONDS, type SignIn } from "./session.service.ts";

const NAME = "stoa_refresh";

type Context = { set: { headers: Record<string, string | number | string[] | undefined> }; info: RequestInfo };

export function readRefreshCookie(header: string | undefined): string | null {
  return new Bun.CookieMap(header ?? "").get(NAME);
}

/** Moves the refresh token from the response's body into its cookie, out of the reach of scripts. */
export function respondSignedIn<More extends SignIn>(context: Context, { refreshToken, ...body }: More) {
  setCookie(context, refreshToken, REFRESH_TOKEN_SECONDS);
  context.set.headers["cache-control"] = "no-store";
  return body;
}

export function clearRefreshCookie(context: Context): void {
  setCookie(context, "", 0);
}

/** Browsers send the cookie only to the auth routes, and never from another site. */
function setCookie({ set, info }: Context, value: string, maxAge: number): void {
  set.headers["set-cookie"] = new Bun.Cookie(NAME, value, {
    path: "/v1/auth",
    httpOnly: true,
    sameSite: "strict",
    secure: info.publicUrl.startsWith("https:"),
    maxAge,
  }).toString();
}
