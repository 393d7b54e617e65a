import { Elysia, t } from "elysia";
import type { SessionCaller } from "../../../kernel/http/callers.ts";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import { textOf } from "../../../kernel/http/schema.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { AnyPassword, FactorAdded, Passkey, RecoveryCodes, SecondFactors, SignedIn } from "../account.schema.ts";
import { respondSignedIn } from "../refresh-cookie.ts";
import type { SessionService } from "../session.service.ts";
import type { UserService } from "../user.service.ts";
import { siteOf } from "./passkeys.ts";
import type { SecondFactorService } from "./second-factor.service.ts";

type Services = { factors: SecondFactorService; sessions: SessionService; users: UserService };

/** JSON in the form that the browser's WebAuthn functions accept and return. */
const WebAuthnJson = t.Record(t.String(), t.Unknown(), {
  description: "JSON of WebAuthn, for the browser's functions",
});
const Options = t.Object({ options: WebAuthnJson });
const Response = t.Object({ response: WebAuthnJson });
const WithPassword = t.Object({
  password: t.Optional(t.Union([AnyPassword], { description: "Of the account, if it has one" })),
});
const Code = t.String({ minLength: 1, maxLength: 32, description: "Six digits of the authenticator app" });

export const secondFactorRoutes = (http: Http, runtime: Runtime, services: Services) =>
  new Elysia()
    .use(passkeySignInRoutes(http, runtime, services))
    .use(verificationRoutes(http, runtime, services))
    .use(factorRoutes(http, runtime, services));

/** Signing in with a passkey alone. */
const passkeySignInRoutes = ({ guards, rateLimit }: Http, { write }: Runtime, { factors, sessions }: Services) =>
  new Elysia({ prefix: "/v1/auth/passkey", tags: ["auth"] })
    .use(guards.ownPage)
    .post("/start", async ({ info }) => ({ options: asJson(await factors.startSignIn(siteOf(info.publicUrl))) }), {
      transform: rateLimit("AUTH_LOGIN"),
      response: { 200: Options },
      ...documented("Begin to sign in with a passkey", ["SVC_RATE_LIMITED"]),
    })
    .post(
      "",
      async (context) => {
        const user = await factors.signIn(siteOf(context.info.publicUrl), context.body.response);
        const started = await write((unit) => sessions.start(unit, user.id, context.info, true));
        return respondSignedIn(context, await sessions.signIn(user, started));
      },
      {
        transform: rateLimit("AUTH_LOGIN"),
        body: Response,
        response: { 200: SignedIn },
        ...documented("Sign in with a passkey", ["SVC_SECOND_FACTOR_INVALID", "SVC_RATE_LIMITED"]),
      },
    );

/** The second step of a sign-in. */
const verificationRoutes = ({ guards, rateLimit }: Http, { write }: Runtime, { factors, sessions }: Services) => {
  const verified = async (sessionId: string) => {
    const { user, ...started } = await write((unit) => sessions.replace(unit, sessionId, true));
    return sessions.signIn(user, started);
  };
  return new Elysia({ prefix: "/v1/auth/second-factor", tags: ["auth"] })
    .use(guards.session)
    .get("/methods", ({ caller }) => methodsOf(factors.list(caller.userId)), {
      response: { 200: t.Object({ passkey: t.Boolean(), totp: t.Boolean(), recoveryCode: t.Boolean() }) },
      ...documented("How this sign-in can be confirmed"),
    })
    .post(
      "/code",
      async (context) => {
        const { caller, body } = context;
        await factors.verifyCode(caller.userId, body.code);
        return respondSignedIn(context, await verified(caller.sessionId));
      },
      {
        transform: rateLimit("AUTH_LOGIN"),
        body: t.Object({
          code: t.String({ minLength: 1, maxLength: 32, description: "Of the authenticator app, or a recovery code" }),
        }),
        response: { 200: SignedIn },
        ...documented("Confirm the sign-in with a one-time or recovery code; the tokens so far end", [
          "SVC_SECOND_FACTOR_INVALID",
          "SVC_RATE_LIMITED",
        ]),
      },
    )
    .post(
      "/passkey/start",
      async ({ caller, info }) => ({
        options: asJson(await factors.startVerification(siteOf(info.publicUrl), caller.userId)),
      }),
      {
        transform: rateLimit("AUTH_LOGIN"),
        response: { 200: Options },
        ...documented("Begin to confirm the sign-in with a passkey", ["SVC_PASSKEY_NOT_FOUND", "SVC_RATE_LIMITED"]),
      },
    )
    .post(
      "/passkey",
      async (context) => {
        const { caller, body, info } = context;
        await factors.verifyPasskey(siteOf(info.publicUrl), caller.userId, body.response);
        return respondSignedIn(context, await verified(caller.sessionId));
      },
      {
        transform: rateLimit("AUTH_LOGIN"),
        body: Response,
        response: { 200: SignedIn },
        ...documented("Confirm the sign-in with a passkey; the tokens so far end", [
          "SVC_SECOND_FACTOR_INVALID",
          "SVC_RATE_LIMITED",
        ]),
      },
    );
};

const factorRoutes = ({ guards, rateLimit }: Http, { write }: Runtime, { factors, sessions, users }: Services) => {
  /** Setting up the first factor also verifies it: a session that needs no further verification replaces this one. */
  const withSession = async <Result extends { recoveryCodes: string[] | null }>(
    context: Parameters<typeof respondSignedIn>[0] & { caller: SessionCaller },
    result: Result,
  ) => {
    if (result.recoveryCodes === null) return { ...result, session: null };
    const { user, ...started } = await write((unit) => sessions.replace(unit, context.caller.sessionId, true));
    return { ...result, session: respondSignedIn(context, await sessions.signIn(user, started)) };
  };
  /** The password may have been changed while it, or a passkey, was verified: that has ended the session. */
  const requireOpen = ({ sessionId }: SessionCaller) => sessions.requireOpen(sessionId);
  const requirePassword = ({ userId, sessionId }: SessionCaller, { password }: { password?: string }) =>
    factors.requirePassword(users.get(userId), password, sessions.hasJustSignedIn(sessionId));
  return new Elysia({ prefix: "/v1/auth/factors", tags: ["auth"] })
    .use(guards.session)
    .get("", ({ caller }) => factors.list(caller.userId), {
      response: { 200: SecondFactors },
      ...documented("The signed-in user's passkeys and codes"),
    })
    .post(
      "/passkeys/start",
      async ({ caller, body, info }) => {
        await requirePassword(caller, body);
        return { options: asJson(await factors.startPasskey(siteOf(info.publicUrl), users.get(caller.userId))) };
      },
      {
        transform: rateLimit("AUTH_PASSWORD_RESET_CONFIRM"),
        body: WithPassword,
        response: { 200: Options },
        ...documented("Begin to add a passkey", ["SVC_PERMISSION_DENIED", "SVC_LIMIT_REACHED", "SVC_RATE_LIMITED"]),
      },
    )
    .post(
      "/passkeys",
      async (context) => {
        const { caller, body, info, set } = context;
        const { name, response } = body;
        const added = await factors.addPasskey(siteOf(info.publicUrl), caller.userId, name, response, () =>
          requireOpen(caller),
        );
        set.status = 201;
        return withSession(context, added);
      },
      {
        body: t.Object({ name: textOf(1, 80), response: WebAuthnJson }),
        response: { 201: t.Object({ passkey: Passkey, ...FactorAdded.properties }) },
        ...documented("Add a passkey", ["SVC_SECOND_FACTOR_INVALID", "SVC_CONFLICT"]),
      },
    )
    .post(
      "/passkeys/:passkeyId/remove",
      async ({ caller, params, body, set }) => {
        await requirePassword(caller, body);
        await write((unit) => {
          requireOpen(caller);
          factors.removePasskey(unit, caller.userId, params.passkeyId);
        });
        set.status = 204;
      },
      {
        transform: rateLimit("AUTH_PASSWORD_RESET_CONFIRM"),
        body: WithPassword,
        ...documented("Remove a passkey", ["SVC_PERMISSION_DENIED", "SVC_PASSKEY_NOT_FOUND", "SVC_RATE_LIMITED"]),
      },
    )
    .post(
      "/totp",
      async ({ caller, body }) => {
        await requirePassword(caller, body);
        return write((unit) => {
          requireOpen(caller);
          return factors.startTotp(unit, users.get(caller.userId));
        });
      },
      {
        transform: rateLimit("AUTH_PASSWORD_RESET_CONFIRM"),
        body: WithPassword,
        response: { 200: t.Object({ secret: t.String({ description: "Base32" }), uri: t.String() }) },
        ...documented("Begin to set up one-time codes", ["SVC_PERMISSION_DENIED", "SVC_CONFLICT", "SVC_RATE_LIMITED"]),
      },
    )
    .post(
      "/totp/confirm",
      async (context) => {
        const { caller, body } = context;
        return withSession(context, await write((unit) => factors.confirmTotp(unit, caller.userId, body.code)));
      },
      {
        transform: rateLimit("AUTH_LOGIN"),
        body: t.Object({ code: Code }),
        response: { 200: FactorAdded },
        ...documented("Confirm one-time codes with the first of them", [
          "SVC_SECOND_FACTOR_INVALID",
          "SVC_RATE_LIMITED",
        ]),
      },
    )
    .post(
      "/totp/remove",
      async ({ caller, body, set }) => {
        await requirePassword(caller, body);
        await write((unit) => {
          requireOpen(caller);
          factors.removeTotp(unit, caller.userId);
        });
        set.status = 204;
      },
      {
        transform: rateLimit("AUTH_PASSWORD_RESET_CONFIRM"),
        body: WithPassword,
        ...documented("Remove one-time codes", ["SVC_PERMISSION_DENIED", "SVC_RATE_LIMITED"]),
      },
    )
    .post(
      "/recovery-codes",
      async ({ caller, body }) => {
        await requirePassword(caller, body);
        return write((unit) => {
          requireOpen(caller);
          return { recoveryCodes: factors.replaceRecoveryCodes(unit, caller.userId) };
        });
      },
      {
        transform: rateLimit("AUTH_PASSWORD_RESET_CONFIRM"),
        body: WithPassword,
        response: { 200: RecoveryCodes },
        ...documented("Replace the recovery codes; the old ones end", [
          "SVC_PERMISSION_DENIED",
          "SVC_CONFLICT",
          "SVC_RATE_LIMITED",
        ]),
      },
    );
};

function methodsOf({ passkeys, totp, recoveryCodesLeft }: ReturnType<SecondFactorService["list"]>) {
  return { passkey: passkeys.length > 0, totp, recoveryCode: recoveryCodesLeft > 0 };
}

const asJson = (options: object) => options as Record<string, unknown>;
