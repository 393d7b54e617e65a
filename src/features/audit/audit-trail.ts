import type { Author } from "../../kernel/author.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import type { AuditActionName } from "../../protocol/enums.ts";

/** Publishes audit events about records of one kind in a project. `idOf` returns the id that users know. */
export function auditTrail<Kind extends string, Row extends Tenant>(
  { bus, now }: Pick<Runtime, "bus" | "now">,
  _kind: Kind,
  idOf: (row: Row) => string,
) {
  type Action = Extract<AuditActionName, `${Kind}.${string}`>;
  return (unit: Unit, author: Author, action: Action, row: Row, metadata: Record<string, unknown> = {}): void => {
    const { projectId, environment } = row;
    const resourceId = idOf(row);
    bus.publish(unit, "audit", { ...author, action, projectId, environment, resourceId, metadata, at: now() });
  };
}
