import type { Tenant } from "../kernel/tenant.ts";
import type { Environment } from "../protocol/enums.ts";
import type { Runtime } from "../runtime.ts";
import type { ActivityRow } from "./store/activity.table.ts";

const MINUTE_MS = 60_000;
/** A little more than the longest range that can be asked for. */
const KEPT_MS = 8 * 86_400_000;

const COUNTED = ["messages", "deliveries", "failedDeliveries"] as const;
type Counted = (typeof COUNTED)[number];

export type Activity = ReturnType<typeof createActivity>;

/**
 * Messages and webhook deliveries by minute. The tables of both have no index by time, and must not pay for one with
 * every message; counting in memory costs nothing. A crash loses what was counted since the last flush.
 */
export function createActivity({ bus, db, now, write }: Pick<Runtime, "bus" | "db" | "now" | "write">) {
  const { $client: client } = db;
  const add = client.query<null, [string, string, number, number, number, number]>(
    `INSERT INTO activity_minutes VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (project_id, environment, at)
     DO UPDATE SET messages = messages + excluded.messages, deliveries = deliveries + excluded.deliveries,
       failed_deliveries = failed_deliveries + excluded.failed_deliveries`,
  );
  const since = client.query<Pick<ActivityRow, "at" | Counted>, [string, string, number]>(
    `SELECT at, messages, deliveries, failed_deliveries AS failedDeliveries FROM activity_minutes
     WHERE project_id = ? AND environment = ? AND at >= ?`,
  );
  const forget = client.query<null, [number]>("DELETE FROM activity_minutes WHERE at < ?");
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
    read({ projectId, environment }: Tenant, from: number): Pick<ActivityRow, "at" | Counted>[] {
      const fresh = [...pending.values()].filter(
        (row) => row.projectId === projectId && row.environment === environment && row.at >= from,
      );
      return [...since.all(projectId, environment, from), ...fresh];
    },

    async flush(): Promise<void> {
      if (pending.size === 0) return;
      const rows = pending;
      pending = new Map();
      await write(() => {
        for (const { projectId, environment, at, messages, deliveries, failedDeliveries } of rows.values()) {
          add.run(projectId, environment, at, messages, deliveries, failedDeliveries);
        }
        forget.run(now() - KEPT_MS);
      });
    },
  };
}
