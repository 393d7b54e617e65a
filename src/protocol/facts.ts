import type { ChatSignal } from "./chat.ts";
import type { ChatEvent } from "./chat-events.ts";
import type { AuditActionName, Environment, LiveStreamStatus } from "./enums.ts";
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

/** Who acts, and by which request: both are null for the command line. */
export type Author = {
  actor: { id: string; email: string } | null;
  request: { id: string; ip: string; userAgent: string | null } | null;
  /** The one that the request chose; keys and webhooks have an environment of their own. */
  environment: Environment;
};

export const COMMAND_LINE: Author = { actor: null, request: null, environment: "DEVELOPMENT" };

/** An administrative action. `metadata` names what changed, never a new value and never a secret. */
export type AuditFact = Author & {
  action: AuditActionName;
  projectId: string;
  resourceId: string;
  metadata: Record<string, unknown>;
  at: number;
};

/** Everything that features tell each other over the bus, by name. */
export type Facts = {
  webhook: WebhookFact;
  audit: AuditFact;
  /** An endpoint has deliveries that may be due: new ones, a redelivery, or it was enabled again. */
  webhookDeliveriesDue: { endpointId: string };
  /** A project was archived or its origins, name or keys changed: caches drop what they hold of it. */
  projectChanged: { projectId: string };
  /** Another process wrote to the database: caches drop everything. */
  changedElsewhere: Record<string, never>;
  apiKeyRevoked: { publicId: string; projectId: string };
  /** Out of the room for good: their tokens are revoked as well. */
  participantRemoved: { roomId: string; identity: string };
  rtcTokenRevoked: { tokenId: string; roomId: string };
  chatTokenRevoked: { tokenId: string };
  /** A durable event of a conversation; `on` it is fanned out, `within` it can be indexed. */
  chatEvent: {
    conversation: { id: string; publicId: string; projectId: string; environment: Environment };
    event: ChatEvent;
  };
  /** Something that is true now and never replayed, for whoever has the conversation open. `conversationId` is the uuid. */
  chatSignal: { conversationId: string; signal: ChatSignal };
  /** Its text, metadata and attachment must be gone everywhere, in what is queued as well. Ids are public ones. */
  messageDeleted: {
    messageId: string;
    conversationId: string;
    projectId: string;
    environment: Environment;
    attachmentId: string | null;
  };
  /** A live stream was started or ended. Viewers who wait in its room get media from LIVE on. */
  streamChanged: { streamId: string; roomId: string; status: LiveStreamStatus };
  roomClosed: { roomId: string; projectId: string; environment: Environment; reason: "closed" | "stream_ended" };
};
