import type { RequestInfo } from "../../kernel/http/request-info.ts";
import { clearedRefreshCookie, refreshCookie } from "./sessions/refresh-cookie.ts";
import type { Opened } from "./sessions/session.service.ts";

type Answered = { set: { headers: Record<string, string | number | string[] | undefined> }; info: RequestInfo };

const overHttps = ({ info }: Answered) => info.publicUrl.startsWith("https:");

/** How a sign-in leaves the server: the access token in the body, the refresh token in its cookie alone. */
export function signInAnswer<More extends Opened>(context: Answered, { refreshToken, ...answer }: More) {
  const { headers } = context.set;
  headers["set-cookie"] = refreshCookie(refreshToken, overHttps(context));
  headers["cache-control"] = "no-store";
  return answer;
}

export function signOutAnswer(context: Answered): void {
  context.set.headers["set-cookie"] = clearedRefreshCookie(overHttps(context));
}
