import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { iso } from "../../kernel/time/clock.ts";
import { writeTraceparent } from "../../kernel/tracing/span.ts";
import { attempt, type Outcome } from "./attempt.ts";
import { judge } from "./retry.ts";
import { livekitHeaders, openSecret, signatureHeaders } from "./signature.ts";
import type { PendingDelivery } from "./store/delivery.store.ts";
import type { WebhookStores } from "./store/stores.ts";
import type { EndpointRow } from "./store/webhook.table.ts";
import { loopbackAllowed, targetRule } from "./url-check.ts";

/** Returns the API key that signs LiveKit's webhooks; null if it was revoked. */
export type LivekitKey = (tenant: Tenant, keyId: string) => { apiKey: string; apiSecret: string } | null;

/** Makes one attempt of a delivery, from signing to the saved outcome. Resolves to the time of the next attempt. */
export function createDelivery(
  runtime: Runtime,
  { endpoints, events, periods, deliveries }: WebhookStores,
  livekitKey: LivekitKey,
  random: () => number,
) {
  const { bus, config, keyring, log, metrics, now, tracing, write } = runtime;
  const attempts = metrics.counter("stoa_webhook_attempts_total", "Webhook delivery attempts by outcome", ["outcome"]);

  /** After a rotation the previous secret signs as well, until the overlap ends. */
  function secretsOf(endpoint: EndpointRow): string[] {
    const sealed = [endpoint.sealedSecret];
    const { sealedPreviousSecret: previous, previousSecretUntil: until } = endpoint;
    if (previous !== null && until !== null && until > now()) sealed.push(previous);
    return sealed.map((text) => openSecret(keyring, text)).filter((secret) => secret !== null);
  }

  async function send(endpoint: EndpointRow, eventId: string, controller: AbortController): Promise<Outcome> {
    const secrets = secretsOf(endpoint);
    if (secrets.length === 0) {
      return { kind: "unreachable", error: "the signing secret cannot be read; rotate it", durationMs: 0 };
    }
    const event = events.body(eventId);
    if (!event) return { kind: "abandoned" };
    const key = endpoint.apiKeyId === null ? null : livekitKey(endpoint, endpoint.apiKeyId);
    if (endpoint.format === "livekit" && key === null) {
      return {
        kind: "unreachable",
        error: "the API key was revoked; choose another one for the endpoint",
        durationMs: 0,
      };
    }
    const span = tracing?.newContext(tracing.recall(eventId));
    const startMs = now();
    const outcome = await attempt(runtime, {
      url: endpoint.url,
      allows: targetRule(endpoint.environment, config.WEBHOOK_ALLOW_PRIVATE, loopbackAllowed(config)),
      headers: {
        ...signatureHeaders(secrets, eventId, event.body, now()),
        ...(key && (await livekitHeaders(key, event.body, now()))),
        ...(span && { traceparent: writeTraceparent(span) }),
      },
      body: event.body,
      timeoutMs: config.WEBHOOK_TIMEOUT_MS,
      controller,
    });
    if (tracing && span && outcome.kind !== "abandoned") {
      const attributes = { "stoa.event.id": eventId, "stoa.webhook.id": endpoint.id };
      const failed = outcome.error === null ? {} : { error: outcome.error };
      tracing.end(span, { name: "deliver webhook", kind: "client", startMs, attributes, ...failed });
    }
    return outcome;
  }

  /** The delivery or its endpoint may have been deleted meanwhile. */
  function record(
    unit: Unit,
    endpointId: string,
    deliveryId: string,
    startedAt: number,
    outcome: Exclude<Outcome, { kind: "abandoned" }>,
  ): number | null {
    const delivery = deliveries.get(deliveryId);
    const endpoint = endpoints.get(endpointId);
    if (!delivery || !endpoint) return null;
    const at = now();
    const attemptsInRound = delivery.attemptCount - delivery.roundStart;
    const { consecutiveFailures, failingSince } = endpoint;
    const before = { attemptsInRound, consecutiveFailures, failingSince };
    const verdict = judge(outcome, before, config, at, random());
    const { status, nextAttemptAt } = verdict;
    const statusCode = outcome.kind === "answered" ? outcome.statusCode : null;
    deliveries.record(
      unit,
      deliveryId,
      { at: iso(startedAt), statusCode, durationMs: outcome.durationMs, error: outcome.error },
      { status, nextAttemptAt, deliveredAt: status === "DELIVERED" ? at : null },
    );
    const { projectId, environment } = endpoint;
    bus.publish(unit, "webhookAttempted", { projectId, environment, delivered: status === "DELIVERED" });
    if (status === "DELIVERED") endpoints.recordSuccess(unit, endpointId, at);
    else {
      const eventAt = events.body(delivery.eventId)?.createdAt ?? delivery.createdAt;
      endpoints.recordFailure(unit, endpointId, verdict.consecutiveFailures, at, eventAt);
    }
    if (verdict.disable !== null && endpoint.status === "ACTIVE") {
      endpoints.disable(unit, endpointId, verdict.disable, at);
      periods.end(unit, endpointId, events.lastSeq());
      bus.publish(unit, "webhookChanged", { projectId });
      log.warn({ webhookId: endpointId, reason: verdict.disable }, "webhooks: endpoint disabled");
    }
    return nextAttemptAt;
  }

  /** `onResponse` is called as soon as the endpoint has responded, before the outcome is on disk. */
  return async (
    endpoint: EndpointRow,
    { id, eventId }: PendingDelivery,
    controller: AbortController,
    onResponse: (responded: boolean) => void,
  ): Promise<number | null> => {
    const startedAt = now();
    const outcome = await send(endpoint, eventId, controller);
    onResponse(outcome.kind === "answered");
    if (outcome.kind === "abandoned") return null;
    attempts.inc({ outcome: outcome.error === null ? "delivered" : outcome.kind });
    return write((unit) => record(unit, endpoint.id, id, startedAt, outcome));
  };
}
