import type { EgressRow } from "./egress.table.ts";

declare module "../../kernel/bus.ts" {
  interface TransactionalEvents {
    egressChanged: { type: "started" | "updated" | "ended"; row: EgressRow };
  }
}
