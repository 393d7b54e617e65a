import { Elysia, t } from "elysia";
import { authorOf } from "../../../kernel/http/callers.ts";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import { EnvironmentQuery } from "../../../kernel/http/schema.ts";
import { NEWEST, page, pageQuery } from "../../../kernel/http/serving/pages.ts";
import type { ProjectService } from "../project.service.ts";
import { Description, Project, ProjectName, ProjectStatus } from "./project.schema.ts";

/** The signed-in user's projects. */
export const projectRoutes = ({ guards, idempotency }: Http, projects: ProjectService) =>
  new Elysia({ prefix: "/v1/projects", tags: ["projects"] })
    .use(guards.session)
    .get(
      "",
      (context) =>
        page(context, context.query, {
          name: "projects",
          shape: ["string"],
          read: (after, limit) =>
            projects.listOf(context.caller.userId, context.query.status, String(after?.[0] ?? NEWEST), limit),
          position: ({ project }) => [project.id],
          show: ({ project, role }) => projects.show(project, role),
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
        ...documented("Create a project", ["SVC_IDEMPOTENCY_KEY_REUSED"], "Whoever creates it is its OWNER."),
        query: t.Object(EnvironmentQuery),
        body: t.Object({ name: ProjectName, description: t.Optional(Description) }),
        response: { 201: Project },
      },
    );
