import type { Runtime } from "../../kernel/runtime.ts";
import type { LivekitKey } from "./deliver.ts";
import { deliveryService } from "./delivery.service.ts";
import { createDispatcher } from "./dispatcher.ts";
import { keepOutbox } from "./outbox.ts";
import { openSecret, sealSecret } from "./signature.ts";
import { type WebhookStores, webhookStores } from "./store/stores.ts";
import { webhookService } from "./webhook.service.ts";

/** Encrypts the secrets of endpoints with the new master secret, so that the previous one can be removed. */
function resealSecrets({ keyring, log, write }: Runtime, { endpoints }: WebhookStores): void {
  const change = (sealed: string) => {
    const secret = openSecret(keyring, sealed);
    return secret === null ? sealed : sealSecret(keyring, secret);
  };
  write((unit) => endpoints.reseal(unit, change)).catch((err) =>
    log.error({ err }, "webhooks: endpoint secrets not encrypted with the new STOA_SECRET"),
  );
}

/** Webhook endpoints and deliveries. From here on, every webhook event that is published on the bus is stored. */
export function createWebhooks(runtime: Runtime, livekitKey: LivekitKey) {
  const stores = webhookStores(runtime.db);
  const { hasLivekitEndpoint } = keepOutbox(runtime, stores);
  if (runtime.keyring.previous !== null) resealSecrets(runtime, stores);
  const webhooks = webhookService(runtime, stores, livekitKey);
  const deliveries = deliveryService(runtime, stores, webhooks);
  return {
    webhooks,
    deliveries,
    webhookDispatcher: createDispatcher(runtime, stores, livekitKey),
    hasLivekitEndpoint,
    webhookBacklog: deliveries.backlog,
    /** Pending deliveries of all projects, without events in the outbox that are not deliveries yet. */
    webhookQueue: stores.deliveries.pendingCount,
  };
}
