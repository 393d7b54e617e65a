import type { Author } from "../../kernel/author.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { iso } from "../../kernel/time/clock.ts";
import type { Environment, WebhookFormat, WebhookStatus } from "../../protocol/enums.ts";
import { ApiError, invalid } from "../../protocol/errors.ts";
import { EVENT_TYPES_OF, type LivekitEventType, type WebhookEventType } from "../../protocol/webhook-events.ts";
import { auditTrail } from "../audit/audit-trail.ts";
import type { LivekitKey } from "./deliver.ts";
import { newSecret, sealSecret } from "./signature.ts";
import type { EndpointChange } from "./store/endpoint.store.ts";
import type { WebhookStores } from "./store/stores.ts";
import type { EndpointRow } from "./store/webhook.table.ts";
import { loopbackAllowed, refusalOf } from "./url-check.ts";
import type { CreateWebhook, UpdateWebhook } from "./webhook.schema.ts";

const ROTATION_OVERLAP_SECONDS = 86_400;

/** The environment of the API key; a member of the project has access to the endpoints of both. */
export type WebhookRef = { projectId: string; webhookId: string; environment?: Environment };

type EventType = WebhookEventType | LivekitEventType;

export type WebhookService = ReturnType<typeof webhookService>;

export function webhookService(
  runtime: Runtime,
  { endpoints, events, periods }: WebhookStores,
  livekitKey: LivekitKey,
) {
  const { bus, config, ids, keyring, now } = runtime;

  function find({ projectId, webhookId, environment }: WebhookRef): EndpointRow {
    const row = endpoints.get(webhookId);
    if (row?.projectId !== projectId || (environment ?? row.environment) !== row.environment) {
      throw new ApiError("SVC_WEBHOOK_NOT_FOUND");
    }
    return row;
  }

  function requireAllowedUrl(url: string, environment: Environment): void {
    const message = refusalOf(url, environment, config.WEBHOOK_ALLOW_PRIVATE, loopbackAllowed(config));
    if (message === null) return;
    throw new ApiError("SVC_WEBHOOK_URL_REFUSED", `url: ${message}`, { details: [{ field: "url", message }] });
  }

  function requireTypes(format: WebhookFormat, types: readonly EventType[] = []): void {
    const wrong = types.find((type) => !EVENT_TYPES_OF[format].includes(type));
    if (wrong !== undefined) throw invalid("events", `${wrong} is not an event of the format ${format}`);
  }

  /** The key that signs the endpoint's events; null for our own format, which has a secret for each endpoint. */
  function signingKey(tenant: Tenant, format: WebhookFormat, apiKeyId: string | undefined): string | null {
    if (format === "stoa") return null;
    if (apiKeyId === undefined) throw invalid("apiKeyId", "is required: LiveKit's format is signed with an API key");
    if (!livekitKey(tenant, apiKeyId)) {
      throw invalid("apiKeyId", "must be the id of an active API key of this project and environment");
    }
    return apiKeyId;
  }

  /** `metadata` names the changed fields without their values, because a URL may contain a secret. */
  const audit = auditTrail(runtime, "webhook", ({ id }: EndpointRow) => id);

  /** Events that happen while an endpoint is disabled are sent only when they are recovered. */
  function setActive(unit: Unit, { id }: EndpointRow, active: boolean): void {
    if (active) periods.begin(unit, id, events.lastSeq());
    else periods.end(unit, id, events.lastSeq());
  }

  function change(
    unit: Unit,
    row: EndpointRow,
    changes: EndpointChange,
    author: Author,
    fields: string[],
  ): EndpointRow {
    const changed = { ...row, ...changes, updatedAt: now() };
    endpoints.update(unit, row.id, { ...changes, updatedAt: changed.updatedAt });
    audit(unit, author, "webhook.updated", row, { fields });
    if (changed.status !== row.status) setActive(unit, row, changed.status === "ACTIVE");
    bus.publish(unit, "webhookChanged", { projectId: row.projectId });
    return changed;
  }

  return {
    find,
    list: endpoints.list,
    present,

    create(unit: Unit, projectId: string, input: CreateWebhook & { environment: Environment }, author: Author) {
      const { environment, format = "stoa" } = input;
      requireAllowedUrl(input.url, environment);
      requireTypes(format, input.events);
      const apiKeyId = signingKey({ projectId, environment }, format, input.apiKeyId);
      const max = config.WEBHOOK_MAX_ENDPOINTS;
      if (endpoints.count(projectId, environment) >= max) {
        throw new ApiError(
          "SVC_LIMIT_REACHED",
          `${environment} has ${max} webhook endpoints already. Delete one first.`,
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
        format,
        apiKeyId,
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
      const sameUrl = endpoints
        .ofProject(projectId)
        .filter((other) => other.environment === environment && other.url === input.url);
      endpoints.insert(unit, row);
      setActive(unit, row, true);
      audit(unit, author, "webhook.created", row);
      bus.publish(unit, "webhookChanged", { projectId });
      const warnings = sameUrl.map(
        ({ id }) => `Endpoint ${id} has the same URL: an event that both subscribe to is delivered twice.`,
      );
      return { ...present(row), secret, ...(warnings.length > 0 ? { warnings } : {}) };
    },

    update(unit: Unit, ref: WebhookRef, input: UpdateWebhook, author: Author) {
      const row = find(ref);
      const fields = Object.keys(input);
      if (fields.length === 0) return present(row);
      if (input.url !== undefined) requireAllowedUrl(input.url, row.environment);
      requireTypes(row.format, input.events);
      if (input.apiKeyId !== undefined && row.format === "stoa") {
        throw invalid("apiKeyId", "is only for endpoints in LiveKit's format");
      }
      const changed = change(
        unit,
        row,
        {
          ...(input.url === undefined ? {} : { url: input.url }),
          ...(input.apiKeyId === undefined ? {} : { apiKeyId: signingKey(row, row.format, input.apiKeyId) }),
          ...(input.events === undefined ? {} : { events: [...new Set(input.events)] }),
          ...(input.description === undefined ? {} : { description: input.description || null }),
          ...statusChange(row, input.status, now()),
        },
        author,
        fields,
      );
      if (input.status === "ACTIVE") bus.publish(unit, "webhookDeliveriesDue", { endpointId: row.id });
      return present(changed);
    },

    delete(unit: Unit, ref: WebhookRef, author: Author): void {
      const row = find(ref);
      endpoints.delete(unit, row.id);
      audit(unit, author, "webhook.deleted", row);
      bus.publish(unit, "webhookChanged", { projectId: row.projectId });
    },

    /** Both secrets sign during the overlap, so that a receiver can change its secret without rejecting requests. */
    rotateSecret(unit: Unit, ref: WebhookRef, overlapSeconds = ROTATION_OVERLAP_SECONDS, author: Author) {
      const row = find(ref);
      const secret = newSecret();
      const changed = change(
        unit,
        row,
        {
          sealedSecret: sealSecret(keyring, secret),
          sealedPreviousSecret: overlapSeconds === 0 ? null : row.sealedSecret,
          previousSecretUntil: overlapSeconds === 0 ? null : now() + overlapSeconds * 1000,
        },
        author,
        ["secret"],
      );
      return { ...present(changed), secret };
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

function present(row: EndpointRow) {
  return {
    id: row.id,
    projectId: row.projectId,
    url: row.url,
    description: row.description,
    environment: row.environment,
    format: row.format,
    apiKeyId: row.apiKeyId,
    events: row.events,
    status: row.status,
    disabledReason: row.disabledReason,
    consecutiveFailures: row.consecutiveFailures,
    lastDeliveryAt: iso(row.lastDeliveryAt),
    createdAt: iso(row.createdAt),
    updatedAt: iso(row.updatedAt),
  };
}
