import type { IngressRow } from "./ingress.store.ts";

declare module "../../../kernel/bus.ts" {
  interface TransactionalEvents {
    ingressChanged: { type: "started" | "ended"; row: IngressRow };
  }
}
