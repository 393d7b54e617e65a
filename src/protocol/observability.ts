/** States, events and errors of connections, shared by the server, the browser SDK's telemetry and the dashboard. */
export const CONNECTION_STATES = ["CONNECTING", "CONNECTED", "RECONNECTING", "DISCONNECTED", "FAILED"] as const;
export type ConnectionState = (typeof CONNECTION_STATES)[number];

export const ERROR_CATEGORIES = [
  "AUTHENTICATION_ERROR",
  "AUTHORIZATION_ERROR",
  "TOKEN_ERROR",
  "SIGNALING_ERROR",
  "ICE_ERROR",
  "TURN_ERROR",
  "SFU_ERROR",
  "NETWORK_ERROR",
  "CLIENT_ERROR",
  "UNKNOWN_ERROR",
] as const;
export type ErrorCategory = (typeof ERROR_CATEGORIES)[number];

export const CONNECTION_EVENT_TYPES = [
  "connection_started",
  "connected",
  "reconnecting",
  "reconnected",
  "disconnected",
  "connection_failed",
  "ice_state_changed",
  "signaling_state_changed",
  "participant_joined",
  "participant_left",
  "participant_reconnected",
  "participant_connection_failed",
  "participant_connection_quality_changed",
  "track_published",
  "track_unpublished",
  "error",
] as const;
export type ConnectionEventType = (typeof CONNECTION_EVENT_TYPES)[number];

export const METRIC_RANGES = { "15m": 900, "1h": 3_600, "24h": 86_400, "7d": 604_800 } as const;
export type MetricRange = keyof typeof METRIC_RANGES;
