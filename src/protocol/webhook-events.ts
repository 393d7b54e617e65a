import type { WebhookFormat } from "./enums.ts";

/**
 * The types of webhook events. `room.created`, `participant.joined` and `participant.left` are about conversations, which once had
 * the name of rooms; what happens in rooms has `call.`, `recording.` and `lobby.`.
 */
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
  "message.reported",
  "call.started",
  "call.participant_joined",
  "call.participant_left",
  "call.ended",
  "participant.moved",
  "lobby.knocked",
  "call.ringing",
  "call.ring_ended",
  "recording.started",
  "recording.ready",
  "recording.failed",
] as const;

/** Sent on request to test an endpoint; it cannot be subscribed to. */
export const WEBHOOK_TEST_TYPE = "webhook.test";

export type WebhookEventType = (typeof WEBHOOK_EVENT_TYPES)[number];

/** The types of events in LiveKit's format. */
export const LIVEKIT_EVENT_TYPES = [
  "room_started",
  "room_finished",
  "participant_joined",
  "participant_left",
  "participant_connection_aborted",
  "track_published",
  "track_unpublished",
  "egress_started",
  "egress_updated",
  "egress_ended",
  "ingress_started",
  "ingress_ended",
] as const;

export type LivekitEventType = (typeof LIVEKIT_EVENT_TYPES)[number];

/** The types that an endpoint of each format can subscribe to. */
export const EVENT_TYPES_OF: Record<WebhookFormat, readonly (WebhookEventType | LivekitEventType)[]> = {
  stoa: WEBHOOK_EVENT_TYPES,
  livekit: LIVEKIT_EVENT_TYPES,
};
