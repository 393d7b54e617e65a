import { Elysia, t } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { nullable } from "../../kernel/http/schema.ts";
import { NEWEST, page, pageQuery } from "../../kernel/http/serving/pages.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { AnyPassword, Password, PersonName, Session, User } from "./account.schema.ts";
import type { AccountService } from "./account.service.ts";
import type { RecoveryService } from "./recovery.service.ts";
import type { SessionService } from "./sessions/session.service.ts";

export type MeDeps = { accounts: AccountService; recovery: RecoveryService; sessions: SessionService };

/** The signed-in user's own account. */
export const meRoutes = ({ guards, rateLimit }: Http, { write }: Runtime, { accounts, recovery, sessions }: MeDeps) =>
  new Elysia({ prefix: "/v1/auth", tags: ["auth"] })
    .use(guards.session)
    .get("/me", ({ caller }) => accounts.show(caller.userId), {
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
      async ({ caller, body, set }) => {
        await recovery.changePassword(caller, body);
        set.status = 204;
      },
      {
        // The same budget as a reset, kept per user: guessing the current password is no way in either.
        transform: rateLimit("AUTH_PASSWORD_RESET_CONFIRM"),
        body: t.Object({ currentPassword: AnyPassword, newPassword: Password }),
        ...documented("Change the password", ["SVC_RATE_LIMITED"], "Every other session of the account ends."),
      },
    )
    .get(
      "/sessions",
      (context) =>
        page(context, context.query, {
          name: "sessions",
          shape: ["string"],
          read: (after, limit) => sessions.list(context.caller.userId, String(after?.[0] ?? NEWEST), limit),
          position: (row) => [row.id],
          show: (row) => sessions.show(row, context.caller.sessionId),
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
        await write((unit) => sessions.endOf(unit, caller.userId, params.sessionId));
        set.status = 204;
      },
      { ...documented("Sign out somewhere else", ["SVC_SESSION_NOT_FOUND"]) },
    );
