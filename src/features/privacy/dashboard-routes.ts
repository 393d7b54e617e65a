import { Elysia, t } from "elysia";
import { authorOf } from "../../kernel/http/callers.ts";
import { permit } from "../../kernel/http/guards.ts";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { EnvironmentQuery, Identity } from "../../kernel/http/schema.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import type { People } from "./people.ts";
import { PersonErasure, PersonExport, PersonOverview } from "./person.schema.ts";
import type { Person } from "./person.ts";

const personOf = ({ projectId, environment, params }: Tenant & { params: { userId: string } }): Person => ({
  ...{ projectId, environment, userId: params.userId },
});

const REFUSED = ["SVC_PROJECT_NOT_FOUND", "SVC_PERMISSION_DENIED", "SVC_VALIDATION_FAILED"] as const;
const ofPerson = { params: t.Object({ projectId: t.String(), userId: Identity }), query: t.Object(EnvironmentQuery) };

/** The same as by key, for owners and admins of the project. */
export const peopleDashboardRoutes = ({ guards }: Http, people: People) =>
  new Elysia({ prefix: "/v1/projects/:projectId/people", tags: ["people: dashboard"] })
    .use(guards.member)
    .get("/:userId", (context) => people.overview(personOf(context), context.info.publicUrl), {
      ...documented("What is held about a user", [...REFUSED]),
      transform: permit("people:read"),
      ...ofPerson,
      response: { 200: PersonOverview },
    })
    .delete(
      "/:userId",
      async (context) => {
        context.set.status = 202;
        return people.showErasure(await people.erasures.request(personOf(context), authorOf(context)));
      },
      {
        ...documented("Erase a user", [...REFUSED]),
        transform: permit("people:manage"),
        ...ofPerson,
        response: { 202: PersonErasure },
      },
    )
    .post(
      "/:userId/exports",
      async (context) => {
        context.set.status = 202;
        const row = await people.exports.request(personOf(context), authorOf(context));
        return people.showExport(row, context.info.publicUrl);
      },
      {
        ...documented("Begin an export of everything held about a user", [
          ...REFUSED,
          "SVC_LIMIT_REACHED",
          "SVC_STORAGE_FULL",
        ]),
        transform: permit("people:manage"),
        ...ofPerson,
        response: { 202: PersonExport },
      },
    );
