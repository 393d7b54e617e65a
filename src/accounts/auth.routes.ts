import { Elysia, t } from "elysia";
import { requireReadable } from "../kernel/http/body.ts";
import { documented } from "../kernel/http/docs.ts";
import type { Http } from "../kernel/http/http.ts";
import type { Budget } from "../kernel/http/rate-limit.ts";
import { ApiError } from "../protocol/errors.ts";
import { Email, Password, PersonName, SignedIn } from "./account.schema.ts";
import type { AccountService } from "./account.service.ts";
import { readRefreshCookie } from "./refresh-cookie.ts";
import { signInAnswer, signOutAnswer } from "./sign-in.ts";

/** Signing up, in and out. */
export const authRoutes = ({ guards, rateLimit }: Http, accounts: AccountService) => {
  // Whoever comes here is known by the address alone, so the limiter stands before everything else.
  const limited = (budget: Budget) => [rateLimit(budget), ({ body }: { body: unknown }) => requireReadable(body)];

  return new Elysia({ prefix: "/v1/auth", tags: ["auth"] })
    .use(guards.ownPage)
    .post(
      "/register",
      async (context) => {
        context.set.status = 201;
        return signInAnswer(context, await accounts.register(context.body, context.info));
      },
      {
        transform: limited("AUTH_REGISTER"),
        body: t.Object({ email: Email, password: Password, name: t.Optional(PersonName) }),
        response: { 201: SignedIn },
        ...documented("Create an account", ["SVC_REGISTRATION_CLOSED", "SVC_CONFLICT", "SVC_RATE_LIMITED"]),
      },
    )
    .post("/login", async (context) => signInAnswer(context, await accounts.login(context.body, context.info)), {
      transform: limited("AUTH_LOGIN"),
      // Any text: which passwords could exist is nobody's business here.
      body: t.Object({ email: t.String({ maxLength: 254 }), password: t.String({ maxLength: 1000 }) }),
      response: { 200: SignedIn },
      ...documented("Sign in", ["SVC_INVALID_CREDENTIALS", "SVC_EMAIL_NOT_VERIFIED", "SVC_RATE_LIMITED"]),
    })
    .post(
      "/refresh",
      async (context) => {
        const refreshToken = readRefreshCookie(context.headers.cookie);
        if (refreshToken === null) throw new ApiError("SVC_AUTH_ERROR");
        return signInAnswer(context, await accounts.refresh(refreshToken));
      },
      {
        response: { 200: SignedIn },
        ...documented(
          "Renew the session by its cookie",
          [],
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
      { ...documented("End the session", [], "By its access token, or by its cookie once that has expired.") },
    );
};
