import type { AuditActionName, Environment } from "./enums.ts";
import type { WebhookEventData, WebhookEventType } from "./webhook-events.ts";

/** Something a project's webhook endpoints may want to hear; joins the transaction that made it true. */
export type WebhookFact = {
  [Type in WebhookEventType]: {
    type: Type;
    projectId: string;
    environment: Environment;
    at: number;
    data: WebhookEventData[Type];
  };
}[WebhookEventType];

/** An administrative action. `metadata` names what changed, never a new value and never a secret. */
export type AuditFact = {
  action: AuditActionName;
  projectId: string;
  environment: Environment | null;
  actor: { id: string; email: string };
  resourceId: string;
  metadata: Record<string, unknown>;
  request: { id: string; ip: string; userAgent: string | null };
  at: number;
};

/** Everything that features tell each other over the bus, by name. */
export type Facts = {
  webhook: WebhookFact;
  audit: AuditFact;
  /** A project was archived or its origins, name or keys changed: caches drop what they hold of it. */
  projectChanged: { projectId: string };
  apiKeyRevoked: { publicId: string; projectId: string };
  rtcTokenRevoked: { tokenId: string; roomId: string };
  chatTokenRevoked: { tokenId: string };
  roomClosed: { roomId: string; projectId: string; environment: Environment; reason: "closed" | "stream_ended" };
};
