import { Elysia } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { memberRoute } from "../../kernel/http/shared-routes.ts";
import { ProjectUsage, ProjectUsageQuery, Usage, UsageDetail, UsageQuery } from "./usage.schema.ts";
import type { UsageService } from "./usage.ts";

const accountUsageRoutes = ({ guards }: Http, usage: UsageService) =>
  new Elysia({ prefix: "/v1/usage", tags: ["usage"] })
    .use(guards.session)
    .get("", ({ caller }) => usage.account(caller.userId), {
      ...documented("The caller's minute allowance and how much of it is used"),
      response: { 200: Usage },
    })
    .get("/detail", ({ caller, query }) => usage.detail(caller.userId, query), {
      ...documented("The same with session history, daily rollup and projects"),
      query: UsageQuery,
      response: { 200: UsageDetail },
    });

const projectUsageRoutes = ({ guards }: Http, usage: UsageService) =>
  new Elysia({ prefix: "/v1/projects/:projectId/usage", tags: ["usage"] })
    .use(guards.member)
    .get("", ({ projectId, query }) => usage.project(projectId, query), {
      ...memberRoute("usage:read", "Minutes of one project"),
      query: ProjectUsageQuery,
      response: { 200: ProjectUsage },
    });

export const usageRoutes = (http: Http, usage: UsageService) =>
  new Elysia().use(accountUsageRoutes(http, usage)).use(projectUsageRoutes(http, usage));
