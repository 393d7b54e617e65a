import { type PageAsked, page } from "../../kernel/http/serving/pages.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import type { MetricRange } from "../../protocol/observability.ts";
import type { Diagnostics } from "./diagnostics.ts";
import type { ConnectionsAsked, ErrorsAsked, ObservabilityService } from "./observability.service.ts";
import type { ConnectionRow } from "./store/connection.table.ts";
import type { ClassifiedErrorRow } from "./store/error.table.ts";

type PageContext = Parameters<typeof page>[0];

export type ObservabilityReads = ReturnType<typeof observabilityReads>;

/** The answers of both sets of routes: an API key asks for its own project, a session for one it belongs to. */
export function observabilityReads(observability: ObservabilityService, diagnostics: Diagnostics) {
  const { connections, errors } = observability;
  return {
    connections: (context: PageContext, tenant: Tenant, asked: ConnectionsAsked) =>
      page<ConnectionRow, ReturnType<typeof connections.show>>(context, asked, {
        name: "connections",
        shape: ["number", "string"],
        read: (after, limit) => {
          const [startedAt = Number.MAX_SAFE_INTEGER, id = ""] = (after ?? []) as [number?, string?];
          return connections.list({ ...tenant, state: asked.state, roomId: asked.roomId }, { startedAt, id }, limit);
        },
        position: (row) => [row.startedAt, row.id],
        show: connections.show,
      }),
    connection: connections.detail,

    errors(context: PageContext, tenant: Tenant, asked: ErrorsAsked) {
      const show = (row: ClassifiedErrorRow) => errors.show(tenant, row);
      if (asked.connectionId !== undefined) {
        const rows = errors.ofConnection(tenant, asked.connectionId);
        const wanted = rows.filter(({ category }) => asked.category === undefined || category === asked.category);
        return wanted.slice(0, asked.limit ?? 100).map(show);
      }
      return page<ClassifiedErrorRow, ReturnType<typeof show>>(context, asked as PageAsked, {
        name: "errors",
        shape: ["number", "string"],
        read: (after, limit) => {
          const [occurredAt = Number.MAX_SAFE_INTEGER, id = ""] = (after ?? []) as [number?, string?];
          return errors.list({ ...tenant, category: asked.category }, { occurredAt, id }, limit);
        },
        position: (row) => [row.occurredAt, row.id],
        show,
      });
    },
    error: errors.detail,

    metrics: (tenant: Tenant, range: MetricRange = "24h") => observability.metrics(tenant, range),
    series: (tenant: Tenant, range: MetricRange = "24h") => observability.series(tenant, range),
    diagnostics,
  };
}
