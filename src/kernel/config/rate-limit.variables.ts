import { integer } from "./variable.ts";

const budget = (fallback: number, route: string) =>
  integer(fallback, { min: 1, max: 1_000_000 }, `Requests in a window: ${route}.`);

export const rateLimitVariables = {
  RATE_LIMIT_WINDOW_SECONDS: integer(60, { min: 1, max: 86_400 }, "Length of every rate-limit window."),
  RATE_LIMIT_AUTH_REGISTER: budget(5, "POST /v1/auth/register"),
  RATE_LIMIT_AUTH_LOGIN: budget(10, "POST /v1/auth/login"),
  RATE_LIMIT_AUTH_VERIFY_EMAIL: budget(10, "POST /v1/auth/verify-email"),
  RATE_LIMIT_AUTH_VERIFY_EMAIL_RESEND: budget(3, "POST /v1/auth/verify-email/resend"),
  RATE_LIMIT_AUTH_PASSWORD_RESET: budget(5, "POST /v1/auth/password-reset"),
  RATE_LIMIT_AUTH_PASSWORD_RESET_CONFIRM: budget(5, "POST /v1/auth/password-reset/confirm"),
  RATE_LIMIT_AUTH_OAUTH_START: budget(20, "POST /v1/auth/oauth/{provider}/start"),
  RATE_LIMIT_AUTH_OAUTH_EXCHANGE: budget(10, "POST /v1/auth/oauth/{provider}/exchange"),
  RATE_LIMIT_API_KEYS: budget(20, "POST /v1/projects/{projectId}/api-keys"),
  RATE_LIMIT_RTC_TOKENS: budget(60, "POST /v1/rooms/{roomId}/rtc-tokens"),
  RATE_LIMIT_RTC_TOKEN_REVOKE: budget(60, "DELETE /v1/rooms/{roomId}/rtc-tokens/{tokenId}"),
  RATE_LIMIT_TEST_TOKEN: budget(30, "POST /v1/projects/{projectId}/rooms/{roomId}/test-token"),
  RATE_LIMIT_LIVE_STREAMS: budget(30, "POST /v1/live-streams"),
  RATE_LIMIT_LIVE_STREAM_HOSTS: budget(60, "POST /v1/live-streams/{streamId}/hosts"),
  RATE_LIMIT_VIEWER_TOKENS: budget(120, "POST /v1/live-streams/{streamId}/viewer-tokens"),
  RATE_LIMIT_TELEMETRY: budget(600, "POST /v1/telemetry/events"),
};
