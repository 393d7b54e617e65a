import { Elysia, t } from "elysia";
import { documented } from "../kernel/http/docs.ts";
import type { Http } from "../kernel/http/http.ts";
import { nullable } from "../kernel/http/schema.ts";
import { PersonName, User } from "./account.schema.ts";
import type { AccountService } from "./account.service.ts";

/** The signed-in user's own account. */
export const meRoutes = ({ guards }: Http, accounts: AccountService) =>
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
    });
