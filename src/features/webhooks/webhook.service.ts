import type { Author } from "../../kernel/author.ts";
import { iso } from "../../kernel/time/clock.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { AuditActionName, Environment, WebhookStatus } from "../../protocol/enums.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { WebhookEventType } from "../../protocol/webhook-events.ts";
import { newSecret, sealSecret } from "./signature.ts";
import type { EndpointChange } from "./store/endpoint.store.ts";
import type { WebhookStores } from "./store/stores.ts";
import type { EndpointRow } from "./store/webhook.table.ts";
import { loopbackAllowed, refusalOf } from "./url-check.ts";

const ROTATION_OVERLAP_SECONDS = 86_400;

type NewWebhook = {
  url: string;
  environment?: Environment;
  events?: WebhookEventType[];
  description?: string | null;
};
type WebhookChange = {
  url?: string;
  events?: WebhookEventType[];
  description?: string | null;
  status?: WebhookStatus;
};

export type WebhookService = ReturnType<typeof webhookService>;

export function webhookService(runtime: Runtime, { endpoints, events, periods }: WebhookStores) {
  const { bus, config, ids, keyring, now } = runtime;

  /** An API key sees the endpoints of its own environment. */
  function find(projectId: string, webhookId: string, environment?: Environment): EndpointRow {
    const row = endpoints.find(projectId, webhookId);
    if (!row || (environment !== undefined && row.environment !== environment))
      throw new ApiError("SVC_WEBHOOK_NOT_FOUND");
    return row;
  }

  function requireGoodUrl(url: string, environment: Environment): void {
    const message = refusalOf(url, environment, config.WEBHOOK_ALLOW_PRIVATE, loopbackAllowed(config));
    if (message === null) return;
    throw new ApiError("SVC_WEBHOOK_URL_REFUSED", `url: ${message}`, { details: [{ field: "url", message }] });
  }

  /** Names of what changed, never a value: a URL may carry a secret of its own. */
  function audit(
    unit: Unit,
    action: AuditActionName,
    row: EndpointRow,
    by: Author,
    metadata: Record<string, unknown> = {},
  ): void {
    const { id: resourceId, projectId, environment } = row;
    bus.publish(unit, "audit", { ...by, action, projectId, environment, resourceId, metadata, at: now() });
  }

  /** What happens while it is disabled is not sent by itself. */
  function setActive(unit: Unit, { id }: EndpointRow, active: boolean): void {
    if (active) periods.begin(unit, id, events.lastSeq());
    else periods.end(unit, id, events.lastSeq());
  }

  function change(unit: Unit, row: EndpointRow, changes: EndpointChange, by: Author, fields: string[]): EndpointRow {
    const changed = { ...row, ...changes, updatedAt: now() };
    endpoints.update(unit, row.id, { ...changes, updatedAt: changed.updatedAt });
    audit(unit, "webhook.updated", row, by, { fields });
    if (changed.status !== row.status) setActive(unit, row, changed.status === "ACTIVE");
    bus.publish(unit, "webhookChanged", { projectId: row.projectId });
    return changed;
  }

  return {
    find,
    list: endpoints.list,
    show,

    create(unit: Unit, projectId: string, input: NewWebhook, by: Author) {
      const environment = input.environment ?? "DEVELOPMENT";
      requireGoodUrl(input.url, environment);
      if (endpoints.count(projectId, environment) >= config.WEBHOOK_MAX_ENDPOINTS) {
        const most = config.WEBHOOK_MAX_ENDPOINTS;
        throw new ApiError(
          "SVC_LIMIT_REACHED",
          `${environment} has ${most} webhook endpoints already. Delete one first.`,
        );
      }
      const secret = newSecret();
      const at = now();
      const row: EndpointRow = {
        id: ids.uuid(),
        projectId,
        environment,
        url: input.url,
        description: input.description || null,
        events: [...new Set(input.events)],
        status: "ACTIVE",
        disabledReason: null,
        consecutiveFailures: 0,
        failingSince: null,
        missedSince: null,
        sealedSecret: sealSecret(keyring, secret),
        sealedPreviousSecret: null,
        previousSecretUntil: null,
        lastDeliveryAt: null,
        createdAt: at,
        updatedAt: at,
      };
      endpoints.insert(unit, row);
      setActive(unit, row, true);
      audit(unit, "webhook.created", row, by);
      bus.publish(unit, "webhookChanged", { projectId });
      return { ...show(row), secret };
    },

    update(unit: Unit, projectId: string, webhookId: string, input: WebhookChange, by: Author) {
      const row = find(projectId, webhookId);
      const fields = Object.keys(input);
      if (fields.length === 0) return show(row);
      if (input.url !== undefined) requireGoodUrl(input.url, row.environment);
      const changed = change(
        unit,
        row,
        {
          ...(input.url === undefined ? {} : { url: input.url }),
          ...(input.events === undefined ? {} : { events: [...new Set(input.events)] }),
          ...(input.description === undefined ? {} : { description: input.description || null }),
          ...statusChange(row, input.status, now()),
        },
        by,
        fields,
      );
      if (input.status === "ACTIVE") bus.publish(unit, "webhookDeliveriesDue", { endpointId: row.id });
      return show(changed);
    },

    delete(unit: Unit, projectId: string, webhookId: string, by: Author): void {
      const row = find(projectId, webhookId);
      endpoints.delete(unit, row.id);
      audit(unit, "webhook.deleted", row, by);
      bus.publish(unit, "webhookChanged", { projectId });
    },

    /** The old secret signs beside the new one for a while, so that a receiver can change over without a gap. */
    rotateSecret(
      unit: Unit,
      projectId: string,
      webhookId: string,
      overlapSeconds = ROTATION_OVERLAP_SECONDS,
      by: Author,
    ) {
      const row = find(projectId, webhookId);
      const secret = newSecret();
      const changed = change(
        unit,
        row,
        {
          sealedSecret: sealSecret(keyring, secret),
          sealedPreviousSecret: overlapSeconds === 0 ? null : row.sealedSecret,
          previousSecretUntil: overlapSeconds === 0 ? null : now() + overlapSeconds * 1000,
        },
        by,
        ["secret"],
      );
      return { ...show(changed), secret };
    },
  };
}

function statusChange(row: EndpointRow, status: WebhookStatus | undefined, at: number): EndpointChange {
  switch (status) {
    case "ACTIVE":
      return { status, disabledReason: null, consecutiveFailures: 0, failingSince: null };
    case "DISABLED":
      return { status, disabledReason: row.disabledReason ?? "manual", missedSince: row.missedSince ?? at };
    case undefined:
      return {};
  }
}

function show(row: EndpointRow) {
  return {
    id: row.id,
    projectId: row.projectId,
    url: row.url,
    description: row.description,
    environment: row.environment,
    events: row.events,
    status: row.status,
    disabledReason: row.disabledReason,
    consecutiveFailures: row.consecutiveFailures,
    lastDeliveryAt: iso(row.lastDeliveryAt),
    createdAt: iso(row.createdAt),
    updatedAt: iso(row.updatedAt),
  };
}
