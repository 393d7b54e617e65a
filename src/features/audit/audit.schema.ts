import { t } from "elysia";
import { Environment, nullable, oneOf, Timestamp } from "../../kernel/http/schema.ts";
import { AUDIT_ACTIONS, AUDIT_ACTOR_TYPES, AUDIT_RESOURCE_TYPES } from "../../protocol/enums.ts";

export const AuditAction = oneOf(AUDIT_ACTIONS);

export const AuditEntry = t.Object({
  publicId: t.String({ description: "`aud_…`" }),
  projectId: nullable(t.String({ description: "null for an action on the installation" })),
  environment: nullable(Environment),
  actorType: oneOf(AUDIT_ACTOR_TYPES),
  actorId: nullable(t.String({ description: "Of the user or the API key; null for the command line" })),
  actorEmail: nullable(t.String({ description: "A user's address at the time; it outlives the user" })),
  actorName: nullable(t.String({ description: "The name of the API key at the time" })),
  action: AuditAction,
  resourceType: oneOf(AUDIT_RESOURCE_TYPES),
  resourceId: t.String(),
  metadata: t.Record(t.String(), t.Unknown()),
  requestId: nullable(t.String({ description: "`x-request-id` of the causing request" })),
  ipAddress: nullable(t.String()),
  userAgent: nullable(t.String()),
  createdAt: Timestamp,
});
