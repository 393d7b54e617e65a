import { Elysia } from "elysia";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import type { ProjectService } from "../project.service.ts";
import { Project } from "../project.schema.ts";

/** The project as its own API key reads it. */
export const projectKeyRoutes = ({ guards }: Http, projects: ProjectService) =>
  new Elysia({ tags: ["project"] }).use(guards.apiKey).get(
    "/v1/project",
    // Not a bare call: the framework reads handlers, and waits for one that could return a promise.
    ({ caller }) => ({ ...projects.shown(caller.projectId), environment: caller.environment }),
    {
      ...documented("The key's own project", ["SVC_ORIGIN_NOT_ALLOWED"]),
      response: { 200: Project },
    },
  );
