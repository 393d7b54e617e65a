import { iso } from "../../kernel/time/clock.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { AuditResourceType } from "../../protocol/enums.ts";
import { auditStore } from "./audit.store.ts";
import type { AuditRow } from "./audit.table.ts";
import type { AuditEvent } from "./events.ts";

export type AuditService = ReturnType<typeof createAudit>;

/** The permanent record of administrative actions: features announce them, this feature writes them down. */
export function createAudit({ db, bus, ids, log }: Runtime) {
  const store = auditStore(db);

  const rowOf = (fact: AuditEvent): AuditRow => ({
    id: ids.uuid(),
    publicId: ids.publicId("audit"),
    projectId: fact.projectId,
    environment: fact.environment,
    actorId: fact.actor?.id ?? null,
    actorEmail: fact.actor?.email ?? null,
    action: fact.action,
    resourceType: fact.action.split(".")[0] as AuditResourceType,
    resourceId: fact.resourceId,
    metadata: fact.metadata,
    requestId: fact.request?.id ?? null,
    ipAddress: fact.request?.ip ?? null,
    userAgent: fact.request?.userAgent ?? null,
    createdAt: fact.at,
  });

  // In the transaction of the action itself; but an entry that cannot be written must not undo it.
  bus.inTransaction("audit", (unit, fact) => {
    try {
      store.insert(unit, rowOf(fact));
    } catch (err) {
      const { action, projectId, resourceId, request } = fact;
      log.error({ err, action, projectId, resourceId, requestId: request?.id }, "audit entry not written");
    }
  });

  return { list: store.list, show };
}

function show({ id: _, createdAt, ...row }: AuditRow) {
  return { ...row, createdAt: iso(createdAt) };
}
