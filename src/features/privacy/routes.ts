import { Elysia, t } from "elysia";
import { authorOfKey } from "../../kernel/http/callers.ts";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { Identity } from "../../kernel/http/schema.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { downloadResponse } from "../storage/download.ts";
import { peopleDashboardRoutes } from "./dashboard-routes.ts";
import type { People } from "./people.ts";
import { PersonErasure, PersonExport, PersonOverview } from "./person.schema.ts";
import type { Person } from "./person.ts";

const personOf = ({ caller, params }: { caller: Omit<Person, "userId">; params: { userId: string } }): Person => {
  const { projectId, environment } = caller;
  return { projectId, environment, userId: params.userId };
};

const keyRoutes = ({ guards }: Http, people: People) =>
  new Elysia({ prefix: "/v1/people", tags: ["people"] })
    .use(guards.apiKey)
    .get("/:userId", (context) => people.overview(personOf(context), context.info.publicUrl), {
      ...documented(
        "What is held about a user",
        ["SVC_VALIDATION_FAILED"],
        "Counts by kind, over chat, rooms, calls and streams of this environment. Nobody of that name: zeros.",
      ),
      params: t.Object({ userId: Identity }),
      response: { 200: PersonOverview },
    })
    .delete(
      "/:userId",
      async (context) => {
        context.set.status = 202;
        return people.showErasure(await people.erasures.request(personOf(context), authorOfKey(context)));
      },
      {
        ...documented(
          "Erase a user",
          ["SVC_VALIDATION_FAILED"],
          "Their messages become tombstones; everything else that is held about them goes, exports included, and their sockets are closed. Once answered, it is done even if the server is killed; GET tells when.",
        ),
        params: t.Object({ userId: Identity }),
        response: { 202: PersonErasure },
      },
    )
    .post(
      "/:userId/exports",
      async (context) => {
        context.set.status = 202;
        const row = await people.exports.request(personOf(context), authorOfKey(context));
        return people.showExport(row, context.info.publicUrl);
      },
      {
        ...documented(
          "Begin an export of everything held about a user",
          ["SVC_VALIDATION_FAILED", "SVC_LIMIT_REACHED", "SVC_STORAGE_FULL"],
          "One at a time for each user: asked again meanwhile, it is the same. The last three of a user are kept, for a week.",
        ),
        params: t.Object({ userId: Identity }),
        response: { 202: PersonExport },
      },
    )
    .get(
      "/:userId/exports/:exportId",
      (context) =>
        people.showExport(people.exports.find(personOf(context), context.params.exportId), context.info.publicUrl),
      {
        ...documented("An export: whether it is ready, and where to fetch it", [
          "SVC_VALIDATION_FAILED",
          "SVC_EXPORT_NOT_FOUND",
        ]),
        params: t.Object({ userId: Identity, exportId: t.String({ maxLength: 128 }) }),
        response: { 200: PersonExport },
      },
    );

/** Where signed addresses of exports lead: the signature stands for a credential. */
const fileRoutes = ({ guards }: Http, { now }: Runtime, people: People) =>
  new Elysia({ prefix: "/v1/exports", tags: ["people"] })
    .use(guards.open)
    .get(
      "/:exportId",
      ({ request, params, set }) =>
        downloadResponse(request, set, people.exports.open(params.exportId, new URL(request.url).searchParams), now()),
      {
        ...documented(
          "Read an export from its address",
          ["SVC_PERMISSION_DENIED", "SVC_EXPORT_NOT_FOUND", "SVC_RANGE_NOT_SATISFIABLE"],
          undefined,
          { 200: "application/x-tar", 206: "application/x-tar", 304: null },
        ),
      },
    );

/** People, asked by key or session. */
export const peopleRoutes = (http: Http, runtime: Runtime, people: People) => (app: Elysia) =>
  app
    .use(keyRoutes(http, people))
    .use(peopleDashboardRoutes(http, people))
    .use(fileRoutes(http, runtime, people));
