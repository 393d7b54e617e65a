import { Elysia, t } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { sharedRoutes } from "../../kernel/http/shared-routes.ts";
import type { User } from "../../kernel/personal-data.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { invalid } from "../../protocol/errors.ts";
import { foreignName } from "../../protocol/ids.ts";
import { Identity } from "../../protocol/room-records.ts";
import { downloadResponse } from "../storage/download.ts";
import { PersonErasure, PersonExport, PersonOverview } from "./privacy.schema.ts";
import type { Privacy } from "./privacy.ts";

/** LiveKit's identities may be any text, and are kept in one normal form: another form would find nothing to erase. */
function userOf({ projectId, environment }: Tenant, params: { userId: string }): User {
  const userId = foreignName(params.userId);
  if (userId === null) throw invalid("userId", "is not an identity that a participant or a user can have");
  return { projectId, environment, userId };
}

const personRoutes = (http: Http, privacy: Privacy) =>
  sharedRoutes(http, { prefix: "/people", tag: "people" }, (app, { route, pick, inEnvironment }) => {
    const ofUser = { params: t.Object({ ...pick({}, { projectId: t.String() }), userId: Identity }), ...inEnvironment };
    return app
      .get("/:userId", ({ tenant, params, info }) => privacy.overview(userOf(tenant, params), info.publicUrl), {
        ...route("people:read", "What is held about a user", ["SVC_VALIDATION_FAILED"], {
          description: pick(
            "Counts by kind, over chat, rooms, calls and streams of this environment. An unknown user has zeros.",
            undefined,
          ),
        }),
        ...ofUser,
        response: { 200: PersonOverview },
      })
      .delete(
        "/:userId",
        async ({ tenant, params, author, set }) => {
          set.status = 202;
          return privacy.presentErasure(await privacy.erasures.request(userOf(tenant, params), author));
        },
        {
          ...route("people:manage", "Erase a user", ["SVC_VALIDATION_FAILED"], {
            description: pick(
              "The user's messages become tombstones; everything else that is held about the user is removed, exports included, and its sockets are closed. An erasure that was answered is done even if the server is killed; GET says when.",
              undefined,
            ),
          }),
          ...ofUser,
          response: { 202: PersonErasure },
        },
      )
      .post(
        "/:userId/exports",
        async ({ tenant, params, author, info, set }) => {
          set.status = 202;
          const row = await privacy.exports.request(userOf(tenant, params), author);
          return privacy.presentExport(row, info.publicUrl);
        },
        {
          ...route(
            "people:manage",
            "Begin an export of everything held about a user",
            ["SVC_VALIDATION_FAILED", "SVC_LIMIT_REACHED", "SVC_STORAGE_FULL"],
            {
              description: pick(
                "One at a time for each user: a second request meanwhile returns the same export. The last three of a user are kept, for a week.",
                undefined,
              ),
            },
          ),
          ...ofUser,
          response: { 202: PersonExport },
        },
      );
  });

const exportRoute = ({ guards }: Http, privacy: Privacy) =>
  new Elysia({ prefix: "/v1/people", tags: ["people"] })
    .use(guards.apiKey)
    .get(
      "/:userId/exports/:exportId",
      ({ caller, params, info }) =>
        privacy.presentExport(privacy.exports.find(userOf(caller, params), params.exportId), info.publicUrl),
      {
        ...documented("An export: whether it is ready, and where to fetch it", [
          "SVC_VALIDATION_FAILED",
          "SVC_EXPORT_NOT_FOUND",
        ]),
        params: t.Object({ userId: Identity, exportId: t.String({ maxLength: 128 }) }),
        response: { 200: PersonExport },
      },
    );

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
    .use(personRoutes(http, privacy))
    .use(exportRoute(http, privacy))
    .use(fileRoutes(http, runtime, privacy));
