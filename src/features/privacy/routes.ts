import { Elysia, t } from "elysia";
import type { Author } from "../../kernel/author.ts";
import { authorOf, authorOfKey } from "../../kernel/http/callers.ts";
import { permit } from "../../kernel/http/guards.ts";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import type { RequestInfo } from "../../kernel/http/request-info.ts";
import { EnvironmentQuery } from "../../kernel/http/schema.ts";
import type { User } from "../../kernel/personal-data.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { invalid } from "../../protocol/errors.ts";
import { foreignName } from "../../protocol/ids.ts";
import { Identity } from "../../protocol/room-records.ts";
import { downloadResponse } from "../storage/download.ts";
import { PersonErasure, PersonExport, PersonOverview } from "./privacy.schema.ts";
import type { Privacy } from "./privacy.ts";

type Context = { params: { userId: string }; info: RequestInfo; set: { status?: number | string } };

/** LiveKit's identities may be any text, and are kept in one normal form: another form would find nothing to erase. */
function userOf({ projectId, environment }: Tenant, { params }: Context): User {
  const userId = foreignName(params.userId);
  if (userId === null) throw invalid("userId", "is not an identity that a participant or a user can have");
  return { projectId, environment, userId };
}

/** The handlers that both kinds of caller share: with an API key, or signed in to the dashboard. */
function handlers(privacy: Privacy) {
  return {
    overview: (tenant: Tenant, context: Context) => privacy.overview(userOf(tenant, context), context.info.publicUrl),
    async erase(tenant: Tenant, author: Author, context: Context) {
      context.set.status = 202;
      return privacy.presentErasure(await privacy.erasures.request(userOf(tenant, context), author));
    },
    async export(tenant: Tenant, author: Author, context: Context) {
      context.set.status = 202;
      const row = await privacy.exports.request(userOf(tenant, context), author);
      return privacy.presentExport(row, context.info.publicUrl);
    },
  };
}

const OVERVIEW = "What is held about a user";
const ERASE = "Erase a user";
const EXPORT = "Begin an export of everything held about a user";

const keyRoutes = ({ guards }: Http, privacy: Privacy) => {
  const { overview, erase, export: exportUser } = handlers(privacy);
  const ofUser = { params: t.Object({ userId: Identity }) };
  return new Elysia({ prefix: "/v1/people", tags: ["people"] })
    .use(guards.apiKey)
    .get("/:userId", (context) => overview(context.caller, context), {
      ...documented(
        OVERVIEW,
        ["SVC_VALIDATION_FAILED"],
        "Counts by kind, over chat, rooms, calls and streams of this environment. An unknown user has zeros.",
      ),
      ...ofUser,
      response: { 200: PersonOverview },
    })
    .delete("/:userId", (context) => erase(context.caller, authorOfKey(context), context), {
      ...documented(
        ERASE,
        ["SVC_VALIDATION_FAILED"],
        "The user's messages become tombstones; everything else that is held about the user is removed, exports included, and its sockets are closed. An erasure that was answered is done even if the server is killed; GET says when.",
      ),
      ...ofUser,
      response: { 202: PersonErasure },
    })
    .post("/:userId/exports", (context) => exportUser(context.caller, authorOfKey(context), context), {
      ...documented(
        EXPORT,
        ["SVC_VALIDATION_FAILED", "SVC_LIMIT_REACHED", "SVC_STORAGE_FULL"],
        "One at a time for each user: a second request meanwhile returns the same export. The last three of a user are kept, for a week.",
      ),
      ...ofUser,
      response: { 202: PersonExport },
    })
    .get(
      "/:userId/exports/:exportId",
      (context) => {
        const row = privacy.exports.find(userOf(context.caller, context), context.params.exportId);
        return privacy.presentExport(row, context.info.publicUrl);
      },
      {
        ...documented("An export: whether it is ready, and where to fetch it", [
          "SVC_VALIDATION_FAILED",
          "SVC_EXPORT_NOT_FOUND",
        ]),
        params: t.Object({ userId: Identity, exportId: t.String({ maxLength: 128 }) }),
        response: { 200: PersonExport },
      },
    );
};

const dashboardRoutes = ({ guards }: Http, privacy: Privacy) => {
  const { overview, erase, export: exportUser } = handlers(privacy);
  const ofUser = { params: t.Object({ projectId: t.String(), userId: Identity }), query: t.Object(EnvironmentQuery) };
  const errors = ["SVC_PROJECT_NOT_FOUND", "SVC_PERMISSION_DENIED", "SVC_VALIDATION_FAILED"] as const;
  return new Elysia({ prefix: "/v1/projects/:projectId/people", tags: ["people: dashboard"] })
    .use(guards.member)
    .get("/:userId", (context) => overview(context, context), {
      ...documented(OVERVIEW, [...errors]),
      transform: permit("people:read"),
      ...ofUser,
      response: { 200: PersonOverview },
    })
    .delete("/:userId", (context) => erase(context, authorOf(context), context), {
      ...documented(ERASE, [...errors]),
      transform: permit("people:manage"),
      ...ofUser,
      response: { 202: PersonErasure },
    })
    .post("/:userId/exports", (context) => exportUser(context, authorOf(context), context), {
      ...documented(EXPORT, [...errors, "SVC_LIMIT_REACHED", "SVC_STORAGE_FULL"]),
      transform: permit("people:manage"),
      ...ofUser,
      response: { 202: PersonExport },
    });
};

/** The routes of signed URLs of exports: the signature is the credential. */
const fileRoutes = ({ guards }: Http, { now }: Runtime, { exports }: Privacy) =>
  new Elysia({ prefix: "/v1/exports", tags: ["people"] })
    .use(guards.open)
    .get(
      "/:exportId",
      ({ request, params, set }) =>
        downloadResponse(request, set, exports.open(params.exportId, new URL(request.url).searchParams), now()),
      {
        ...documented(
          "Read an export from its address",
          ["SVC_PERMISSION_DENIED", "SVC_EXPORT_NOT_FOUND", "SVC_RANGE_NOT_SATISFIABLE"],
          undefined,
          { 200: "application/x-tar", 206: "application/x-tar", 304: null },
        ),
      },
    );

export const privacyRoutes = (http: Http, runtime: Runtime, privacy: Privacy) => (app: Elysia) =>
  app
    .use(keyRoutes(http, privacy))
    .use(dashboardRoutes(http, privacy))
    .use(fileRoutes(http, runtime, privacy));
