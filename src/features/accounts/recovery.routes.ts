import { Elysia, t } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { Email, OneTimeToken, Password, SignedIn, Verified } from "./account.schema.ts";
import type { RecoveryService } from "./recovery.service.ts";
import { signInAnswer } from "./sign-in.ts";

const Accepted = t.Object({ status: t.Literal("accepted") });

/** Proving an address, and getting back in without the password. */
export const recoveryRoutes = ({ guards, rateLimit }: Http, recovery: RecoveryService) => {
  const accepted = (set: { status?: number | string }) => {
    set.status = 202;
    return { status: "accepted" as const };
  };

  return new Elysia({ prefix: "/v1/auth", tags: ["auth"] })
    .use(guards.ownPage)
    .post(
      "/verify-email",
      async (context) => signInAnswer(context, await recovery.verifyEmail(context.body, context.info)),
      {
        transform: rateLimit("AUTH_VERIFY_EMAIL"),
        body: t.Object({ token: OneTimeToken, password: t.Optional(Password) }),
        response: { 200: Verified },
        ...documented(
          "Verify an address by the link in its mail, and sign in",
          ["SVC_INVALID_ONE_TIME_TOKEN", "SVC_RATE_LIMITED"],
          "Anybody could have registered the address: with `password` it is chosen anew, and whoever chose the other one is out.",
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
      async (context) => signInAnswer(context, await recovery.confirmPasswordReset(context.body, context.info)),
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
