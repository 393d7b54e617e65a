import { Elysia, t } from "elysia";
import { authorOf } from "../../../kernel/http/callers.ts";
import { permit } from "../../../kernel/http/guards.ts";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import { EnvironmentQuery } from "../../../kernel/http/schema.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { ProjectService } from "../project.service.ts";
import { Description, Project, ProjectName } from "../project.schema.ts";

const MAX_ORIGINS = 100;

/** One project, as its members see it. */
export const projectDashboardRoutes = ({ guards }: Http, { write }: Runtime, projects: ProjectService) =>
  new Elysia({ prefix: "/v1/projects/:projectId", tags: ["projects"] })
    .use(guards.member)
    .get("", ({ projectId, role }) => projects.show(projects.find(projectId), role), {
      ...documented("One project", ["SVC_PROJECT_NOT_FOUND"]),
      transform: permit("project:read"),
      response: { 200: Project },
    })
    .patch(
      "",
      async (context) => {
        const { projectId, role, body } = context;
        return projects.show(await write((unit) => projects.update(unit, projectId, body, authorOf(context))), role);
      },
      {
        ...documented("Rename or describe a project", [
          "SVC_PROJECT_NOT_FOUND",
          "SVC_PERMISSION_DENIED",
          "SVC_CONFLICT",
        ]),
        transform: permit("project:update"),
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
        ...documented(
          "Archive a project",
          ["SVC_PROJECT_NOT_FOUND", "SVC_PERMISSION_DENIED"],
          "Its API keys stop working; its data stays readable to its members.",
        ),
        transform: permit("project:archive"),
        query: t.Object(EnvironmentQuery),
      },
    )
    .patch(
      "/allowed-origins",
      async (context) => {
        const { projectId, role, body } = context;
        return projects.show(
          await write((unit) => projects.setOrigins(unit, projectId, body, authorOf(context))),
          role,
        );
      },
      {
        ...documented(
          "Replace the browser origins that may use the project",
          ["SVC_PROJECT_NOT_FOUND", "SVC_PERMISSION_DENIED", "SVC_CONFLICT"],
          "An empty list allows any origin. Unless switched off, localhost is allowed besides the list.",
        ),
        transform: permit("project:update"),
        query: t.Object(EnvironmentQuery),
        body: t.Object({
          allowedOrigins: t.Array(t.String({ maxLength: 300 }), { maxItems: MAX_ORIGINS }),
          allowLocalhostOrigins: t.Optional(t.Boolean()),
        }),
        response: { 200: Project },
      },
    );
