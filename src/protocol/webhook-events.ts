/** The catalogue of webhook events: 7 of live streams, 8 of chat. */
export const WEBHOOK_EVENT_TYPES = [
  "live_stream.created",
  "live_stream.started",
  "live_stream.ended",
  "live_stream.host_joined",
  "live_stream.host_left",
  "live_stream.viewer_joined",
  "live_stream.viewer_left",
  "message.created",
  "message.updated",
  "message.deleted",
  "reaction.added",
  "reaction.removed",
  "room.created",
  "participant.joined",
  "participant.left",
] as const;

/** Sent on request to try an endpoint out; in no filter, and caused by nothing else. */
export const WEBHOOK_TEST_TYPE = "webhook.test";

export type WebhookEventType = (typeof WEBHOOK_EVENT_TYPES)[number];

type StreamPresence = { streamId: string; identity: string; at: string };
type Reaction = { messageId: string; conversationId: string; userId: string; emoji: string; at: string; seq: number };
type Membership = { conversationId: string; userId: string; role: string; at: string; seq: number };

/** `data` of each event. A message is the record of the chat API. */
export type WebhookEventData = {
  "live_stream.created": {
    streamId: string;
    title: string;
    visibility: string;
    hostIdentity: string;
    createdAt: string;
  };
  "live_stream.started": { streamId: string; startedAt: string };
  "live_stream.ended": { streamId: string; endedAt: string; durationMs: number | null };
  "live_stream.host_joined": StreamPresence & { role: "HOST" | "CO_HOST" };
  "live_stream.host_left": StreamPresence;
  "live_stream.viewer_joined": StreamPresence;
  "live_stream.viewer_left": StreamPresence;
  "message.created": { message: Record<string, unknown>; seq: number };
  "message.updated": { message: Record<string, unknown>; seq: number };
  "message.deleted": {
    messageId: string;
    conversationId: string;
    senderId: string | null;
    deletedAt: string;
    deletedBy: string | null;
    seq: number;
  };
  "reaction.added": Reaction;
  "reaction.removed": Reaction;
  "room.created": {
    conversationId: string;
    name: string;
    type: string;
    roomId: string | null;
    createdAt: string;
    seq: number;
  };
  "participant.joined": Membership;
  "participant.left": Membership;
};
