import { t } from "elysia";
import { Environment, nullable, oneOf, Timestamp } from "../../kernel/http/schema.ts";
import { AUDIT_ACTIONS, AUDIT_RESOURCE_TYPES } from "../../protocol/enums.ts";

export const AuditAction = oneOf(AUDIT_ACTIONS);

export const AuditEntry = t.Object({
  publicId: t.String({ description: "`aud_…`" }),
  projectId: t.String(),
  environment: Environment,
  actorId: nullable(t.String({ description: "null for the command line" })),
  actorEmail: nullable(t.String({ description: "The address at the time; it outlives the user" })),
  action: AuditAction,
  resourceType: oneOf(AUDIT_RESOURCE_TYPES),
  resourceId: t.String(),
  metadata: t.Record(t.String(), t.Unknown()),
  requestId: nullable(t.String({ description: "`x-request-id` of the causing request" })),
  ipAddress: nullable(t.String()),
  userAgent: nullable(t.String()),
  createdAt: Timestamp,
});
