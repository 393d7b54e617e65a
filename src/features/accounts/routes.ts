import { Elysia, t } from "elysia";
import { bearerOf } from "../../kernel/http/bearer.ts";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { nullable } from "../../kernel/http/schema.ts";
import { NEWEST_BY_ID, page, pageQuery } from "../../kernel/http/serving/pages.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { ApiError } from "../../protocol/errors.ts";
import {
  AnyPassword,
  Email,
  OneTimeToken,
  Password,
  PersonName,
  Registered,
  Registration,
  Session,
  SignedIn,
  User,
  Verified,
} from "./account.schema.ts";
import type { AccountService } from "./account.service.ts";
import { oauthRoutes } from "./oauth/oauth.routes.ts";
import type { OAuthService } from "./oauth/oauth.service.ts";
import type { RecoveryService } from "./recovery.service.ts";
import { clearRefreshCookie, readRefreshCookie, respondSignedIn } from "./refresh-cookie.ts";
import { secondFactorRoutes } from "./second-factor/second-factor.routes.ts";
import type { SecondFactorService } from "./second-factor/second-factor.service.ts";
import type { SessionService } from "./session.service.ts";
import type { UserService } from "./user.service.ts";

type Services = {
  accounts: AccountService;
  recovery: RecoveryService;
  sessions: SessionService;
  factors: SecondFactorService;
  users: UserService;
  oauth: OAuthService;
};

export const accountRoutes = (http: Http, runtime: Runtime, services: Services) => (app: Elysia) =>
  app
    .use(signInRoutes(http, services))
    .use(recoveryRoutes(http, services.recovery))
    .use(oauthRoutes(http, services.oauth))
    .use(secondFactorRoutes(http, runtime, services))
    .use(ownAccountRoutes(http, runtime, services));

const signInRoutes = ({ guards, rateLimit }: Http, { accounts, oauth }: Services) =>
  new Elysia({ prefix: "/v1/auth", tags: ["auth"] })
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
        return "refreshToken" in registered ? respondSignedIn(context, registered) : registered;
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
    .post("/login", async (context) => respondSignedIn(context, await accounts.login(context.body, context.info)), {
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
          return respondSignedIn(context, await accounts.refresh(refreshToken));
        } catch (error) {
          // The cookie is cleared unless the error is internal, because then the token may still be valid.
          if (error instanceof ApiError) clearRefreshCookie(context);
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
        const { request, headers, set } = context;
        await accounts.logout({
          accessToken: bearerOf(request),
          refreshToken: readRefreshCookie(headers.cookie),
        });
        clearRefreshCookie(context);
        set.status = 204;
      },
      documented("End the session", ["SVC_AUTH_ERROR"], "By its access token, or by its cookie once that has expired."),
    );

const Accepted = t.Object({ status: t.Literal("accepted") });

/** Verifying an e-mail address, and signing in without the password. */
const recoveryRoutes = ({ guards, rateLimit }: Http, recovery: RecoveryService) => {
  const accepted = (set: { status?: number | string }) => {
    set.status = 202;
    return { status: "accepted" as const };
  };

  return new Elysia({ prefix: "/v1/auth", tags: ["auth"] })
    .use(guards.ownPage)
    .post(
      "/verify-email",
      async (context) => respondSignedIn(context, await recovery.verifyEmail(context.body, context.info)),
      {
        transform: rateLimit("AUTH_VERIFY_EMAIL"),
        body: t.Object({ token: OneTimeToken, password: t.Optional(Password) }),
        response: { 200: Verified },
        ...documented(
          "Verify an address by the link in its mail, and sign in",
          ["SVC_INVALID_ONE_TIME_TOKEN", "SVC_RATE_LIMITED"],
          "Anyone could have registered the address. Sending `password` replaces the password that was chosen then and ends its sessions.",
        ),
      },
    )
    .post(
      "/verify-email/resend",
      ({ body, set }) => {
        recovery.resendVerification(body.email);
        return accepted(set);
      },
      {
        transform: rateLimit("AUTH_VERIFY_EMAIL_RESEND"),
        body: t.Object({ email: Email }),
        response: { 202: Accepted },
        ...documented("Send the verification mail again", ["SVC_RATE_LIMITED"], "The same answer for every address."),
      },
    )
    .post(
      "/password-reset",
      ({ body, set }) => {
        recovery.requestPasswordReset(body.email);
        return accepted(set);
      },
      {
        transform: rateLimit("AUTH_PASSWORD_RESET"),
        body: t.Object({ email: Email }),
        response: { 202: Accepted },
        ...documented("Send a link to set a new password", ["SVC_RATE_LIMITED"], "The same answer for every address."),
      },
    )
    .post(
      "/password-reset/confirm",
      async (context) => respondSignedIn(context, await recovery.confirmPasswordReset(context.body, context.info)),
      {
        transform: rateLimit("AUTH_PASSWORD_RESET_CONFIRM"),
        body: t.Object({ token: OneTimeToken, password: Password }),
        response: { 200: SignedIn },
        ...documented(
          "Set a new password by the link in its mail, and sign in",
          ["SVC_INVALID_ONE_TIME_TOKEN", "SVC_RATE_LIMITED"],
          "Every other session of the account ends.",
        ),
      },
    );
};

const ownAccountRoutes = (
  { guards, rateLimit }: Http,
  { write }: Runtime,
  { accounts, recovery, sessions }: Services,
) =>
  new Elysia({ prefix: "/v1/auth", tags: ["auth"] })
    .use(guards.session)
    .get("/me", ({ caller }) => accounts.get(caller.userId), {
      response: { 200: User },
      ...documented("The signed-in user"),
    })
    .patch("/me", ({ caller, body }) => accounts.rename(caller.userId, body), {
      body: t.Object({ name: t.Optional(nullable(PersonName)) }),
      response: { 200: User },
      ...documented("Change the signed-in user's name"),
    })
    .post(
      "/password",
      async (context) => respondSignedIn(context, await recovery.changePassword(context.caller, context.body)),
      {
        // The current password could be guessed here too, so the rate limit of a password reset applies.
        transform: rateLimit("AUTH_PASSWORD_RESET_CONFIRM"),
        body: t.Object({ currentPassword: AnyPassword, newPassword: Password }),
        response: { 200: SignedIn },
        ...documented(
          "Change the password",
          ["SVC_RATE_LIMITED"],
          "Every session of the account ends; a new one takes the place of this one.",
        ),
      },
    )
    .get(
      "/sessions",
      (context) =>
        page(context, context.query, {
          name: "sessions",
          start: NEWEST_BY_ID,
          read: ([before], limit) => sessions.list(context.caller.userId, before, limit),
          position: (row) => [row.id],
          show: (row) => sessions.present(row, context.caller.sessionId),
        }),
      {
        query: t.Object(pageQuery),
        response: { 200: t.Array(Session) },
        ...documented("Where the user is signed in", ["SVC_INVALID_CURSOR"]),
      },
    )
    .delete(
      "/sessions/:sessionId",
      async ({ caller, params, set }) => {
        await write((unit) => sessions.endOwn(unit, caller.userId, params.sessionId));
        set.status = 204;
      },
      documented("Sign out somewhere else", ["SVC_SESSION_NOT_FOUND"]),
    );
