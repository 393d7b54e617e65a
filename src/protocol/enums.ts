/** Closed sets of values in the API; each is a const tuple, so that schemas, types and tests share one list. */
export const ENVIRONMENTS = ["DEVELOPMENT", "PRODUCTION"] as const;
export type Environment = (typeof ENVIRONMENTS)[number];

export const PROJECT_ROLES = ["OWNER", "ADMIN", "DEVELOPER", "VIEWER"] as const;
export type ProjectRole = (typeof PROJECT_ROLES)[number];

export const RTC_SERVER_STATUSES = ["HEALTHY", "DRAINING", "UNHEALTHY"] as const;
export type RtcServerStatus = (typeof RTC_SERVER_STATUSES)[number];

export const CALL_STATUSES = ["LIVE", "ENDED"] as const;
export type CallStatus = (typeof CALL_STATUSES)[number];

export const RECORDING_STATUSES = ["RECORDING", "READY", "FAILED", "INTERRUPTED"] as const;
export type RecordingStatus = (typeof RECORDING_STATUSES)[number];

export const CHAT_SCOPES = ["chat:read", "chat:send", "chat:moderate", "chat:manage"] as const;
export type ChatScope = (typeof CHAT_SCOPES)[number];

export const AUDIT_ACTIONS = [
  "project.created",
  "project.updated",
  "project.archived",
  "api_key.created",
  "api_key.revoked",
  "api_key.secret_shown",
  "member.added",
  "member.removed",
  "member.role_changed",
  "webhook.created",
  "webhook.updated",
  "webhook.deleted",
  "person.exported",
  "person.erased",
  "recording.started",
  "recording.stopped",
  "recording.deleted",
  "recording.shared",
  "recording.composed",
  "recording.composition_deleted",
  "egress.started",
  "egress.updated",
  "egress.stopped",
  "ingress.created",
  "ingress.updated",
  "ingress.deleted",
  "report.resolved",
  "word_list.updated",
  "invitation.created",
  "invitation.withdrawn",
  "room.closed",
  "room.updated",
  "room.agent_dispatched",
  "room.agent_withdrawn",
  "participant.removed",
  "participant.muted",
  "participant.updated",
  "participant.moved",
  "participant.forwarded",
  "participant.admitted",
  "participant.denied",
  "rtc_token.minted",
  "rtc_token.revoked",
  "chat_token.revoked",
  "live_stream.updated",
  "live_stream.started",
  "live_stream.ended",
  "live_stream.host_removed",
  "live_stream.viewer_removed",
  "node_key.created",
  "node_key.revoked",
  "server.drained",
  "server.undrained",
] as const;
export type AuditActionName = (typeof AUDIT_ACTIONS)[number];
export const AUDIT_RESOURCE_TYPES = [
  "project",
  "api_key",
  "member",
  "webhook",
  "person",
  "recording",
  "egress",
  "ingress",
  "report",
  "word_list",
  "invitation",
  "room",
  "participant",
  "rtc_token",
  "chat_token",
  "live_stream",
  "node_key",
  "server",
] as const;
export const AUDIT_ACTOR_TYPES = ["user", "api_key", "command_line"] as const;
export type AuditActorType = (typeof AUDIT_ACTOR_TYPES)[number];
export type AuditResourceType = (typeof AUDIT_RESOURCE_TYPES)[number];

export const WEBHOOK_FORMATS = ["stoa", "livekit"] as const;
export type WebhookFormat = (typeof WEBHOOK_FORMATS)[number];

export const WEBHOOK_STATUSES = ["ACTIVE", "DISABLED"] as const;
export type WebhookStatus = (typeof WEBHOOK_STATUSES)[number];

export const WEBHOOK_DISABLED_REASONS = ["manual", "consecutive_failures", "gone"] as const;
export type WebhookDisabledReason = (typeof WEBHOOK_DISABLED_REASONS)[number];

export const DELIVERY_STATUSES = ["PENDING", "DELIVERED", "FAILED"] as const;
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

export const LIVE_STREAM_STATUSES = ["CREATED", "LIVE", "ENDED"] as const;
export type LiveStreamStatus = (typeof LIVE_STREAM_STATUSES)[number];

export const LIVE_STREAM_VISIBILITIES = ["PUBLIC", "PRIVATE", "AUTHENTICATED"] as const;
export type LiveStreamVisibility = (typeof LIVE_STREAM_VISIBILITIES)[number];

export const LIVE_STREAM_HOST_ROLES = ["HOST", "CO_HOST"] as const;
export type LiveStreamHostRole = (typeof LIVE_STREAM_HOST_ROLES)[number];

/** The state of a link between two media servers. `silent`: no authentic packet arrived for a second; `down`: for three, or never. */
export const LINK_STATES = ["up", "silent", "down"] as const;

/** The quality of a participant's connection, best first. */
export const QUALITIES = ["excellent", "good", "poor", "lost"] as const;

/** Why a participant's call was bad; `none` without an evident cause. */
export const VERDICT_CAUSES = [
  "none",
  "uplink_loss",
  "uplink_narrow",
  "downlink_loss",
  "downlink_narrow",
  "high_rtt",
  "relayed",
  "missing_key",
  "publisher_cpu",
  "device",
  "reconnects",
  "media_stalled",
  "server_overload",
  "server_link",
] as const;
