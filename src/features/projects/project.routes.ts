import { Elysia, t } from "elysia";
import { authorOf } from "../../kernel/http/callers.ts";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { EnvironmentQuery } from "../../kernel/http/schema.ts";
import { NEWEST_BY_ID, page, pageQuery } from "../../kernel/http/serving/pages.ts";
import { memberRoute } from "../../kernel/http/shared-routes.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { apiKeyRoutes } from "./api-key.routes.ts";
import type { ApiKeyService } from "./api-key.service.ts";
import { type MemberServices, memberRoutes } from "./member.routes.ts";
import { Description, Project, ProjectName, ProjectStatus } from "./project.schema.ts";
import type { ProjectService } from "./project.service.ts";

const MAX_ORIGINS = 100;

type ProjectServices = MemberServices & { apiKeys: ApiKeyService };

/** Projects, their members and their API keys. */
export const projectsRoutes = (http: Http, runtime: Runtime, services: ProjectServices) => (app: Elysia) =>
  app
    .use(ownProjectRoutes(http, services.projects))
    .use(projectListRoutes(http, services.projects))
    .use(projectRoutes(http, runtime, services.projects))
    .use(memberRoutes(http, runtime, services))
    .use(apiKeyRoutes(http, runtime, services.apiKeys));

const ownProjectRoutes = ({ guards }: Http, projects: ProjectService) =>
  new Elysia({ tags: ["project"] }).use(guards.apiKey).get(
    "/v1/project",
    // Elysia awaits a handler whose body is a bare call, so this handler builds an object instead.
    ({ caller }) => ({ ...projects.presentToKey(caller.projectId), environment: caller.environment }),
    {
      ...documented("The key's own project", ["SVC_ORIGIN_NOT_ALLOWED"]),
      response: { 200: Project },
    },
  );

/** The signed-in user's projects. */
const projectListRoutes = ({ guards, idempotency }: Http, projects: ProjectService) =>
  new Elysia({ prefix: "/v1/projects", tags: ["projects"] })
    .use(guards.session)
    .get(
      "",
      (context) =>
        page(context, context.query, {
          name: "projects",
          start: NEWEST_BY_ID,
          read: ([before], limit) => projects.memberships(context.caller.userId, context.query.status, before, limit),
          position: ({ id }) => [id],
          show: ({ id, role }) => projects.present(projects.find(id), role),
        }),
      {
        ...documented("Projects that the user is a member of", ["SVC_INVALID_CURSOR"]),
        query: t.Object({ ...pageQuery, status: t.Optional(ProjectStatus) }),
        response: { 200: t.Array(Project) },
      },
    )
    .post(
      "",
      (context) => {
        const { caller, info, query, body } = context;
        const author = authorOf({ caller, info, environment: query.environment });
        return idempotency.create(context, (unit) => projects.create(unit, caller.userId, body, author));
      },
      {
        ...documented("Create a project", ["SVC_IDEMPOTENCY_KEY_REUSED"], "Its creator becomes its OWNER."),
        query: t.Object(EnvironmentQuery),
        body: t.Object({ name: ProjectName, description: t.Optional(Description) }),
        response: { 201: Project },
      },
    );

/** One project, for its members. */
const projectRoutes = ({ guards }: Http, { write }: Runtime, projects: ProjectService) =>
  new Elysia({ prefix: "/v1/projects/:projectId", tags: ["projects"] })
    .use(guards.member)
    .get("", ({ projectId, role }) => projects.present(projects.find(projectId), role), {
      ...memberRoute("project:read", "One project"),
      response: { 200: Project },
    })
    .patch(
      "",
      async (context) => {
        const { projectId, role, body } = context;
        return projects.present(await write((unit) => projects.update(unit, projectId, body, authorOf(context))), role);
      },
      {
        ...memberRoute("project:update", "Rename or describe a project", ["SVC_CONFLICT"]),
        query: t.Object(EnvironmentQuery),
        body: t.Object({ name: t.Optional(ProjectName), description: t.Optional(Description) }),
        response: { 200: Project },
      },
    )
    .delete(
      "",
      async (context) => {
        await write((unit) => projects.archive(unit, context.projectId, authorOf(context)));
        context.set.status = 204;
      },
      {
        ...memberRoute("project:archive", "Archive a project", [], {
          description: "Its API keys stop working; its data stays readable to its members.",
        }),
        query: t.Object(EnvironmentQuery),
      },
    )
    .patch(
      "/allowed-origins",
      async (context) => {
        const { projectId, role, body } = context;
        return projects.present(
          await write((unit) => projects.setOrigins(unit, projectId, body, authorOf(context))),
          role,
        );
      },
      {
        ...memberRoute("project:update", "Replace the browser origins that may use the project", ["SVC_CONFLICT"], {
          description: "An empty list allows any origin. Unless switched off, localhost is allowed besides the list.",
        }),
        query: t.Object(EnvironmentQuery),
        body: t.Object({
          allowedOrigins: t.Array(t.String({ maxLength: 300 }), { maxItems: MAX_ORIGINS }),
          allowLocalhostOrigins: t.Optional(t.Boolean()),
        }),
        response: { 200: Project },
      },
    );
