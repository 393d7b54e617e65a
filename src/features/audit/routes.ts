import { Elysia, t } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { NEWEST_BY_ID, page, pageQuery } from "../../kernel/http/serving/pages.ts";
import { memberRoute } from "../../kernel/http/shared-routes.ts";
import { AuditAction, AuditEntry } from "./audit.schema.ts";
import type { AuditRow } from "./audit.store.ts";
import type { AuditService } from "./audit.ts";

const DEFAULT_LIMIT = 50;

const AuditQuery = t.Object({
  ...pageQuery,
  action: t.Optional(AuditAction),
  actorId: t.Optional(t.String({ maxLength: 128 })),
  resourceId: t.Optional(t.String({ maxLength: 128 })),
});

type AuditContext = Parameters<typeof page>[0] & { query: typeof AuditQuery.static };

export const auditRoutes = (http: Http, audit: AuditService) => {
  const list = (context: AuditContext, projectId: string | null) =>
    page(context, context.query, {
      name: "audit",
      start: NEWEST_BY_ID,
      defaultLimit: DEFAULT_LIMIT,
      read: ([before], limit) => audit.list(projectId, context.query, before, limit),
      position: (row: AuditRow) => [row.id],
      show: audit.present,
    });
  return new Elysia().use(projectRoutes(http, list)).use(operatorRoutes(http, list));
};

type List = (context: AuditContext, projectId: string | null) => ReturnType<AuditService["present"]>[];

const operatorRoutes = ({ guards }: Http, list: List) =>
  new Elysia({ prefix: "/v1/audit-logs", tags: ["audit"] })
    .use(guards.operator)
    .get("", (context) => list(context, null), {
      ...documented("Administrative actions on the installation, newest first; for operators", [
        "SVC_PERMISSION_DENIED",
        "SVC_INVALID_CURSOR",
      ]),
      query: AuditQuery,
      response: { 200: t.Array(AuditEntry) },
    });

const projectRoutes = ({ guards }: Http, list: List) =>
  new Elysia({ prefix: "/v1/projects/:projectId/audit-logs", tags: ["audit"] })
    .use(guards.member)
    .get("", (context) => list(context, context.projectId), {
      ...memberRoute("audit:read", "Administrative actions on the project, newest first", ["SVC_INVALID_CURSOR"]),
      query: AuditQuery,
      response: { 200: t.Array(AuditEntry) },
    });
