import type { Runtime } from "../../../kernel/runtime.ts";
import { sameTenant, type Tenant } from "../../../kernel/tenant.ts";
import { DAY_MS } from "../../../kernel/time/clock.ts";
import type { Environment } from "../../../protocol/enums.ts";
import { type ActivityCounts, type ActivityRow, activityStore } from "./activity.store.ts";

const MINUTE_MS = 60_000;
/** A little more than the longest range of metrics. */
const KEPT_MS = 8 * DAY_MS;

type CountedField = "messages" | "deliveries" | "failedDeliveries";

export type Activity = ReturnType<typeof createActivity>;

/**
 * Counts messages and webhook deliveries by minute. Their own tables have no index on the time, because every message
 * would have to update it. The counts are in memory until the next flush, so a crash loses the latest ones.
 */
export function createActivity({ bus, db, now, write }: Pick<Runtime, "bus" | "db" | "now" | "write">) {
  const store = activityStore(db);
  let pending = new Map<string, ActivityRow>();

  function count(projectId: string, environment: Environment, field: CountedField): void {
    const at = Math.floor(now() / MINUTE_MS) * MINUTE_MS;
    const key = `${projectId} ${environment} ${at}`;
    const row = pending.get(key) ?? { projectId, environment, at, messages: 0, deliveries: 0, failedDeliveries: 0 };
    row[field] += 1;
    pending.set(key, row);
  }

  bus.on("chatEvent", ({ conversation, event }) => {
    if (event.type === "message") count(conversation.projectId, conversation.environment, "messages");
  });
  bus.on("webhookAttempted", ({ projectId, environment, delivered }) =>
    count(projectId, environment, delivered ? "deliveries" : "failedDeliveries"),
  );

  return {
    /** Written and unwritten counts, unsorted. */
    read(tenant: Tenant, from: number): ActivityCounts[] {
      const unwritten = [...pending.values()].filter((row) => sameTenant(row, tenant) && row.at >= from);
      return [...store.since(tenant, from), ...unwritten];
    },

    async flush(): Promise<void> {
      if (pending.size === 0) return;
      const rows = pending;
      pending = new Map();
      await write((unit) => {
        for (const row of rows.values()) store.add(unit, row);
        store.prune(unit, now() - KEPT_MS);
      });
    },
  };
}
