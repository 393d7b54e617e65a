import { Elysia, t } from "elysia";
import { permit } from "../../kernel/http/guards.ts";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { NEWEST, page, pageQuery } from "../../kernel/http/serving/pages.ts";
import { AuditAction, AuditEntry } from "./audit.schema.ts";
import type { AuditService } from "./audit.ts";

const DEFAULT_LIMIT = 50;

export const auditRoutes = ({ guards }: Http, audit: AuditService) =>
  new Elysia({ prefix: "/v1/projects/:projectId/audit-logs", tags: ["audit"] }).use(guards.member).get(
    "",
    (context) =>
      page(context, context.query, {
        name: "audit",
        shape: ["string"],
        defaultLimit: DEFAULT_LIMIT,
        read: (after, limit) => audit.list(context.projectId, context.query, String(after?.[0] ?? NEWEST), limit),
        position: (row) => [row.id],
        show: audit.present,
      }),
    {
      ...documented("Administrative actions on the project, newest first", [
        "SVC_PROJECT_NOT_FOUND",
        "SVC_PERMISSION_DENIED",
        "SVC_INVALID_CURSOR",
      ]),
      transform: permit("audit:read"),
      query: t.Object({
        ...pageQuery,
        action: t.Optional(AuditAction),
        actorId: t.Optional(t.String({ maxLength: 128 })),
        resourceId: t.Optional(t.String({ maxLength: 128 })),
      }),
      response: { 200: t.Array(AuditEntry) },
    },
  );
