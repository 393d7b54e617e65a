import type { Db } from "../../../kernel/db/open.ts";
import { changing, inserter, reading, rowsOf, updater } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Environment, WebhookDisabledReason } from "../../../protocol/enums.ts";
import { type EndpointRow, webhookEndpoints } from "./webhook.table.ts";

export type EndpointChange = Partial<Omit<EndpointRow, "id" | "projectId" | "environment" | "createdAt">>;

export function endpointStore({ $client: client }: Db) {
  const select = rowsOf(client, webhookEndpoints);
  const byId = select<[string]>("WHERE id = ?");
  const newest = select<[string, string, Environment | null, number]>(
    "WHERE project_id = ?1 AND id < ?2 AND (?3 IS NULL OR environment = ?3) ORDER BY id DESC LIMIT ?4",
  );
  const ofProject = select<[string]>("WHERE project_id = ?");
  const active = reading<{ id: string }, []>(client, "SELECT id FROM webhook_endpoints WHERE status = 'ACTIVE'");
  const count = reading<{ count: number }, [string, Environment]>(
    client,
    "SELECT count(*) AS count FROM webhook_endpoints WHERE project_id = ? AND environment = ?",
  );
  const remove = changing<[string]>(client, "DELETE FROM webhook_endpoints WHERE id = ?");
  const recordSuccess = changing<[number, string]>(
    client,
    "UPDATE webhook_endpoints SET consecutive_failures = 0, failing_since = NULL, last_delivery_at = ? WHERE id = ?",
  );
  const recordFailure = changing<[string, number, number, number]>(
    client,
    `UPDATE webhook_endpoints SET consecutive_failures = ?2, failing_since = coalesce(failing_since, ?3),
         missed_since = min(coalesce(missed_since, ?4), ?4) WHERE id = ?1`,
  );
  const recordRecovery = changing<[string]>(client, "UPDATE webhook_endpoints SET missed_since = NULL WHERE id = ?");
  const disable = changing<[string, WebhookDisabledReason, number]>(
    client,
    `UPDATE webhook_endpoints SET status = 'DISABLED', disabled_reason = ?2, updated_at = ?3,
         missed_since = coalesce(missed_since, ?3) WHERE id = ?1`,
  );

  const sealed = reading<{ id: string; secret: string; previous: string | null }, []>(
    client,
    "SELECT id, sealed_secret AS secret, sealed_previous_secret AS previous FROM webhook_endpoints",
  );
  const seal = changing<[string, string | null, string]>(
    client,
    "UPDATE webhook_endpoints SET sealed_secret = ?, sealed_previous_secret = ? WHERE id = ?",
  );
  return {
    /** Changes the sealed secrets of all endpoints; a secret that `change` cannot decrypt stays unchanged. */
    reseal(unit: Unit, change: (sealed: string) => string): void {
      for (const { id, secret, previous } of sealed.all()) {
        seal.run(unit, change(secret), previous === null ? null : change(previous), id);
      }
    },
    get: (id: string) => byId.get(id),
    /** Newest first. `before` is the last id of the previous page; ids sort by time. */
    list: (projectId: string, environment: Environment | undefined, before: string, limit: number) =>
      newest.all(projectId, before, environment ?? null, limit),
    ofProject: (projectId: string) => ofProject.all(projectId),
    active: () => active.all().map(({ id }) => id),
    count: (projectId: string, environment: Environment) => count.get(projectId, environment)?.count ?? 0,
    insert: inserter<EndpointRow>(client, webhookEndpoints),
    update: updater(client, webhookEndpoints),
    /** The deliveries of the endpoint are deleted with it. */
    delete: (unit: Unit, id: string) => void remove.run(unit, id),

    recordSuccess: (unit: Unit, id: string, at: number) => void recordSuccess.run(unit, at, id),
    /** `eventAt` is the time of the event that was not delivered. */
    recordFailure: (unit: Unit, id: string, failures: number, at: number, eventAt: number) =>
      void recordFailure.run(unit, id, failures, at, eventAt),
    /** All missed events have deliveries again. */
    recordRecovery: (unit: Unit, id: string) => void recordRecovery.run(unit, id),
    disable: (unit: Unit, id: string, reason: WebhookDisabledReason, at: number) =>
      void disable.run(unit, id, reason, at),
  };
}
