import { Elysia, t } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { ApiError } from "../../protocol/errors.ts";
import {
  AnyPassword,
  Email,
  OneTimeToken,
  Password,
  PersonName,
  Registered,
  Registration,
  SignedIn,
} from "./account.schema.ts";
import type { AccountService } from "./account.service.ts";
import type { OAuthService } from "./oauth/oauth.service.ts";
import { readRefreshCookie } from "./sessions/refresh-cookie.ts";
import { signInAnswer, signOutAnswer } from "./sign-in.ts";

/** Signing up, in and out. */
export const authRoutes = (
  { guards, rateLimit }: Http,
  { accounts, oauth }: { accounts: AccountService; oauth: OAuthService },
) => {
  return new Elysia({ prefix: "/v1/auth", tags: ["auth"] })
    .use(guards.ownPage)
    .get("/registration", () => ({ ...accounts.registration(), providers: oauth.names }), {
      response: { 200: Registration },
      ...documented("Whether an account can be made now, and how one can sign in"),
    })
    .post(
      "/register",
      async (context) => {
        context.set.status = 201;
        const registered = await accounts.register(context.body, context.info);
        return "refreshToken" in registered ? signInAnswer(context, registered) : registered;
      },
      {
        transform: rateLimit("AUTH_REGISTER"),
        body: t.Object({
          email: Email,
          password: Password,
          name: t.Optional(PersonName),
          inviteToken: t.Optional(OneTimeToken),
        }),
        response: { 201: Registered },
        ...documented(
          "Create an account",
          ["SVC_REGISTRATION_CLOSED", "SVC_CONFLICT", "SVC_INVALID_ONE_TIME_TOKEN", "SVC_RATE_LIMITED"],
          "Signed in at once, unless the address must be verified first.",
        ),
      },
    )
    .post("/login", async (context) => signInAnswer(context, await accounts.login(context.body, context.info)), {
      transform: rateLimit("AUTH_LOGIN"),
      body: t.Object({ email: t.String({ maxLength: 254 }), password: AnyPassword }),
      response: { 200: SignedIn },
      ...documented("Sign in", ["SVC_INVALID_CREDENTIALS", "SVC_EMAIL_NOT_VERIFIED", "SVC_RATE_LIMITED"]),
    })
    .post(
      "/refresh",
      async (context) => {
        try {
          const refreshToken = readRefreshCookie(context.headers.cookie);
          if (refreshToken === null) throw new ApiError("SVC_AUTH_ERROR");
          return signInAnswer(context, await accounts.refresh(refreshToken));
        } catch (error) {
          // A cookie that renews nothing is of no more use; one that could not be looked at still is.
          if (error instanceof ApiError) signOutAnswer(context);
          throw error;
        }
      },
      {
        response: { 200: SignedIn },
        ...documented(
          "Renew the session by its cookie",
          ["SVC_AUTH_ERROR"],
          "The refresh token is replaced; using an old one again ends the session.",
        ),
      },
    )
    .post(
      "/logout",
      async (context) => {
        const { headers, set } = context;
        await accounts.logout({
          accessToken: /^Bearer (\S+)$/i.exec(headers.authorization ?? "")?.[1] ?? null,
          refreshToken: readRefreshCookie(headers.cookie),
        });
        signOutAnswer(context);
        set.status = 204;
      },
      {
        ...documented(
          "End the session",
          ["SVC_AUTH_ERROR"],
          "By its access token, or by its cookie once that has expired.",
        ),
      },
    );
};
