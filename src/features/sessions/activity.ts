import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import type { Environment } from "../../protocol/enums.ts";
import { type ActivityCounts, activityStore } from "./store/activity.store.ts";
import type { ActivityRow } from "./store/activity.table.ts";

const MINUTE_MS = 60_000;
/** A little more than the longest range that can be asked for. */
const KEPT_MS = 8 * 86_400_000;

type Counted = "messages" | "deliveries" | "failedDeliveries";

export type Activity = ReturnType<typeof createActivity>;

/**
 * Messages and webhook deliveries by minute. The tables of both have no index by time, and must not pay for one with
 * every message; counting in memory costs nothing. A crash loses what was counted since the last flush.
 */
export function createActivity({ bus, db, now, write }: Pick<Runtime, "bus" | "db" | "now" | "write">) {
  const store = activityStore(db);
  let pending = new Map<string, ActivityRow>();

  function count(projectId: string, environment: Environment, what: Counted): void {
    const at = Math.floor(now() / MINUTE_MS) * MINUTE_MS;
    const key = `${projectId} ${environment} ${at}`;
    const row = pending.get(key) ?? { projectId, environment, at, messages: 0, deliveries: 0, failedDeliveries: 0 };
    row[what] += 1;
    pending.set(key, row);
  }

  bus.on("chatEvent", ({ conversation, event }) => {
    if (event.type === "message") count(conversation.projectId, conversation.environment, "messages");
  });
  bus.on("webhookAttempted", ({ projectId, environment, delivered }) =>
    count(projectId, environment, delivered ? "deliveries" : "failedDeliveries"),
  );

  return {
    /** What is on record and what is not yet, in no order. */
    read(tenant: Tenant, from: number): ActivityCounts[] {
      const { projectId, environment } = tenant;
      const fresh = [...pending.values()].filter(
        (row) => row.projectId === projectId && row.environment === environment && row.at >= from,
      );
      return [...store.since(tenant, from), ...fresh];
    },

    async flush(): Promise<void> {
      if (pending.size === 0) return;
      const rows = pending;
      pending = new Map();
      await write((unit) => {
        for (const row of rows.values()) store.add(unit, row);
        store.forget(unit, now() - KEPT_MS);
      });
    },
  };
}
