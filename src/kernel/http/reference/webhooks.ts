import { unwrapSchema } from "@elysiajs/openapi/openapi";
import { ENVIRONMENTS } from "../../../protocol/enums.ts";
import { WEBHOOK_MEANINGS, WebhookPayloads } from "../../../protocol/webhook-payloads.ts";
import type { CooperativeTask } from "../../scheduling/cooperative-task.ts";
import { publicSchema } from "./public-schema.ts";

const HEADERS: Record<string, string> = {
  "svc-signature": "`t=<unix seconds>,v1=<hex>`: HMAC-SHA256 of `<t>.<body>`, keyed with the endpoint's whole secret",
  "svc-event-id": "The event's id; the same for every attempt",
  "webhook-id": "The same id, as Standard Webhooks names it",
  "webhook-timestamp": "Unix seconds",
  "webhook-signature": "`v1,<base64>`, as Standard Webhooks signs",
};

/** The `webhooks` section of the reference, by event. */
export function* describeWebhooks(): CooperativeTask<Record<string, { post: Record<string, unknown> }>> {
  const described: Record<string, { post: Record<string, unknown> }> = {};
  for (const [type, payload] of Object.entries(WebhookPayloads)) {
    const summary = WEBHOOK_MEANINGS[type as keyof typeof WebhookPayloads];
    described[type] = { post: operationOf(type, summary, publicSchema(unwrapSchema(payload as never))) };
    yield;
  }
  return described;
}

function operationOf(type: string, summary: string, data: unknown): Record<string, unknown> {
  const schema = {
    type: "object",
    required: ["id", "type", "projectId", "environment", "createdAt", "data"],
    properties: {
      id: { type: "string", description: "Equals the header `svc-event-id`; what to deduplicate on" },
      type: { type: "string", const: type },
      projectId: { type: "string" },
      environment: { type: "string", enum: [...ENVIRONMENTS] },
      createdAt: { type: "string", format: "date-time" },
      data,
    },
  };
  return {
    summary,
    operationId: `webhook.${type}`,
    tags: ["webhooks"],
    parameters: Object.entries(HEADERS).map(([name, description]) => ({
      name,
      in: "header",
      required: true,
      description,
      schema: { type: "string" },
    })),
    requestBody: { required: true, content: { "application/json": { schema } } },
    responses: {
      "2XX": { description: "Received. Anything else, or no answer in time, is tried again." },
      "410": { description: "Gone: the endpoint is disabled." },
    },
  };
}
