import type { Elysia } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { ApiKeyService } from "./api-key.service.ts";
import type { MemberService } from "./member.service.ts";
import { apiKeyRoutes } from "./api-key.routes.ts";
import { type InvitationRouteDeps, invitationRoutes, invitedRoutes } from "./rest/invitation.routes.ts";
import { memberRoutes } from "./member.routes.ts";
import { projectDashboardRoutes } from "./rest/project.dashboard-routes.ts";
import { projectKeyRoutes } from "./rest/project.key-routes.ts";
import { projectRoutes } from "./project.routes.ts";

type ProjectServices = InvitationRouteDeps & { members: MemberService; apiKeys: ApiKeyService };

/** Projects, who belongs to them, and their keys. */
export const projectsRoutes = (http: Http, runtime: Runtime, services: ProjectServices) => (app: Elysia) =>
  app
    .use(projectKeyRoutes(http, services.projects))
    .use(projectRoutes(http, services.projects))
    .use(projectDashboardRoutes(http, runtime, services.projects))
    .use(memberRoutes(http, runtime, services))
    .use(invitationRoutes(http, runtime, services))
    .use(invitedRoutes(http, runtime, services))
    .use(apiKeyRoutes(http, runtime, services.apiKeys));
