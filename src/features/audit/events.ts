import type { Author } from "../../kernel/author.ts";
import type { AuditActionName } from "../../protocol/enums.ts";

/** An administrative action. `metadata` lists the names of the changed fields, never a new value and never a secret. */
export type AuditEvent = Author & {
  action: AuditActionName;
  /** Null for an action on the installation. */
  projectId: string | null;
  resourceId: string;
  metadata: Record<string, unknown>;
  at: number;
};

declare module "../../kernel/bus.ts" {
  interface TransactionalEvents {
    audit: AuditEvent;
  }
}
