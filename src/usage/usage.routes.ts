import { Elysia, t } from "elysia";
import { permit } from "../kernel/http/guards.ts";
import type { Http } from "../kernel/http/http.ts";
import { documented } from "../kernel/http/reference/docs.ts";
import { Environment, NullableTimestamp, Timestamp } from "../kernel/http/schema.ts";
import type { UsageService } from "./usage.service.ts";

const UsageQuery = t.Object({
  limit: t.Optional(t.Integer({ minimum: 1, maximum: 200, description: "History rows, newest first" })),
  days: t.Optional(
    t.Integer({ minimum: 1, maximum: 365, description: "UTC days of the daily rollup, today included" }),
  ),
});

const UsageSession = t.Object({
  id: t.String(),
  projectId: t.String(),
  environment: Environment,
  roomId: t.String(),
  roomName: t.String(),
  participantIdentity: t.String(),
  startedAt: Timestamp,
  endedAt: NullableTimestamp,
  minutes: t.Integer(),
});
const Daily = t.Array(t.Object({ date: t.String(), minutes: t.Integer(), sessions: t.Integer() }));

const Usage = t.Object({
  includedMinutes: t.Integer(),
  usedMinutes: t.Integer(),
  remainingMinutes: t.Integer(),
  usedPercent: t.Number(),
  exceeded: t.Boolean(),
  enforced: t.Boolean(),
  periodStart: Timestamp,
  liveSessions: t.Integer(),
});

const UsageDetail = t.Object({
  ...Usage.properties,
  history: t.Array(UsageSession),
  daily: Daily,
  projects: t.Array(t.Object({ projectId: t.String(), name: t.String(), minutes: t.Integer() })),
});

const ProjectUsage = t.Object({
  projectId: t.String(),
  usedMinutes: t.Integer(),
  history: t.Array(UsageSession),
  daily: Daily,
});

const accountUsageRoutes = ({ guards }: Http, usage: UsageService) =>
  new Elysia({ prefix: "/v1/usage", tags: ["usage"] })
    .use(guards.session)
    .get("", ({ caller }) => usage.account(caller.userId), {
      ...documented("The caller's minute allowance and what is spent of it"),
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
      ...documented("Minutes of one project", ["SVC_PROJECT_NOT_FOUND"]),
      transform: permit("usage:read"),
      query: UsageQuery,
      response: { 200: ProjectUsage },
    });

export const usageRoutes = (http: Http, usage: UsageService) =>
  new Elysia().use(accountUsageRoutes(http, usage)).use(projectUsageRoutes(http, usage));
