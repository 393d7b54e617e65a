import type { Runtime } from "../../kernel/runtime.ts";
import { iso } from "../../kernel/time/clock.ts";
import type { AuditResourceType } from "../../protocol/enums.ts";
import { type AuditRow, auditStore } from "./audit.store.ts";
import type { AuditEvent } from "./events.ts";

export type AuditService = ReturnType<typeof createAudit>;

/** The permanent log of administrative actions. Other features publish them; this feature stores them. */
export function createAudit({ db, bus, ids, log }: Runtime) {
  const store = auditStore(db);

  const rowOf = ({ actor, request, ...event }: AuditEvent): AuditRow => ({
    id: ids.uuid(),
    publicId: ids.publicId("audit"),
    projectId: event.projectId,
    environment: event.projectId === null ? null : event.environment,
    actorType: actor?.type ?? "command_line",
    actorId: actor?.id ?? null,
    actorEmail: actor?.type === "user" ? actor.email : null,
    actorName: actor?.type === "api_key" ? actor.name : null,
    action: event.action,
    resourceType: event.action.split(".")[0] as AuditResourceType,
    resourceId: event.resourceId,
    metadata: event.metadata,
    requestId: request?.id ?? null,
    ipAddress: request?.ip ?? null,
    userAgent: request?.userAgent ?? null,
    createdAt: event.at,
  });

  // The entry joins the transaction of its action, but a failure to write it must not undo the action.
  bus.inTransaction("audit", (unit, event) => {
    try {
      store.insert(unit, rowOf(event));
    } catch (err) {
      const { action, projectId, resourceId, request } = event;
      log.error({ err, action, projectId, resourceId, requestId: request?.id }, "audit: entry not saved");
    }
  });

  return { list: store.list, present };
}

function present({ id: _, createdAt, ...row }: AuditRow) {
  return { ...row, createdAt: iso(createdAt) };
}
