import { Elysia, t } from "elysia";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import { ApiError } from "../../../protocol/errors.ts";
import { OneTimeToken, SignedIn } from "../account.schema.ts";
import { respondSignedIn } from "../refresh-cookie.ts";
import { type OAuthService, STATE_SECONDS } from "./oauth.service.ts";

const COOKIE = "stoa_oauth";

/**
 * Signing in through a provider: `start` returns the URL of the provider's page, `exchange` accepts the callback's
 * code.
 */
export const oauthRoutes = ({ guards, rateLimit }: Http, oauth: OAuthService) =>
  new Elysia({ prefix: "/v1/auth/oauth", tags: ["auth"] })
    .use(guards.ownPage)
    .get("/providers", () => oauth.names, {
      response: { 200: t.Array(t.String()) },
      ...documented("Names of the providers that can be signed in with"),
    })
    .post(
      "/:provider/start",
      async ({ params, info, set }) => {
        const started = await oauth.start(params.provider, info.publicUrl);
        set.headers["set-cookie"] = new Bun.Cookie(COOKIE, started.state, {
          path: "/v1/auth/oauth",
          httpOnly: true,
          sameSite: "strict",
          secure: info.publicUrl.startsWith("https:"),
          maxAge: STATE_SECONDS,
        }).toString();
        return started;
      },
      {
        transform: rateLimit("AUTH_OAUTH_START"),
        response: { 200: t.Object({ authorizationUrl: t.String(), state: t.String() }) },
        ...documented(
          "Begin to sign in",
          ["SVC_OAUTH_PROVIDER_NOT_FOUND", "SVC_OAUTH_ERROR", "SVC_RATE_LIMITED"],
          "The provider sends the browser back to `/oauth/{provider}/callback`. PKCE; the state works once, for 10 minutes.",
        ),
      },
    )
    .post(
      "/:provider/exchange",
      async (context) => {
        const { params, body, info, headers } = context;
        // A browser finishes only a sign-in that it started itself, so a link with an attacker's code is rejected.
        const startedState = new Bun.CookieMap(headers.cookie ?? "").get(COOKIE);
        if (info.origin !== null && startedState !== body.state) throw new ApiError("SVC_OAUTH_ERROR");
        return respondSignedIn(context, await oauth.exchange(params.provider, body, info));
      },
      {
        transform: rateLimit("AUTH_OAUTH_EXCHANGE"),
        body: t.Object({
          code: t.String({ minLength: 1, maxLength: 4096 }),
          state: t.String({ minLength: 1, maxLength: 256 }),
          iss: t.Optional(t.String({ maxLength: 1024, description: "As the provider sent it, if it did" })),
          inviteToken: t.Optional(OneTimeToken),
        }),
        response: { 200: SignedIn },
        ...documented(
          "Finish to sign in",
          [
            "SVC_OAUTH_PROVIDER_NOT_FOUND",
            "SVC_OAUTH_ERROR",
            "SVC_REGISTRATION_CLOSED",
            "SVC_INVALID_ONE_TIME_TOKEN",
            "SVC_RATE_LIMITED",
          ],
          "An existing account is linked only by an address that the provider calls verified.",
        ),
      },
    );
