/** The closed catalogue of errors, `code → [status, legacyCode, message]`; the server sends no other errors. */
export const ERRORS = {
  SVC_VALIDATION_FAILED: [400, "VALIDATION_FAILED", "The request is not valid."],
  SVC_INVALID_CURSOR: [400, "INVALID_CURSOR", "The cursor cannot be read. Start again without one."],
  SVC_WEBHOOK_URL_REFUSED: [400, "VALIDATION_FAILED", "This URL cannot receive webhooks."],
  SVC_INVALID_ONE_TIME_TOKEN: [400, "VALIDATION_FAILED", "The link is invalid, expired or was used already."],
  SVC_SECOND_FACTOR_INVALID: [400, "VALIDATION_FAILED", "The code or passkey is not valid."],

  SVC_AUTH_ERROR: [401, "UNAUTHORIZED", "A valid credential is required."],
  SVC_TOKEN_EXPIRED: [401, "UNAUTHORIZED", "The token has expired. Mint a new one."],
  SVC_TOKEN_REVOKED: [401, "UNAUTHORIZED", "The token was revoked."],
  SVC_INVALID_CREDENTIALS: [401, "UNAUTHORIZED", "E-mail address or password is wrong."],
  SVC_OAUTH_ERROR: [401, "UNAUTHORIZED", "The sign-in with this provider failed."],

  SVC_PERMISSION_DENIED: [403, "FORBIDDEN", "The credential does not permit this."],
  SVC_ORIGIN_NOT_ALLOWED: [403, "FORBIDDEN", "The project does not allow this browser origin."],
  SVC_SECOND_FACTOR_REQUIRED: [403, "FORBIDDEN", "Confirm the sign-in with a passkey or a one-time code first."],
  SVC_EMAIL_NOT_VERIFIED: [403, "FORBIDDEN", "Verify the e-mail address first."],
  SVC_REGISTRATION_CLOSED: [403, "FORBIDDEN", "Registration is closed on this server. Ask for an invitation."],
  SVC_USAGE_LIMIT_EXCEEDED: [403, "FORBIDDEN", "The included RTC minutes of this month are used up."],
  SVC_MUTED: [403, "FORBIDDEN", "You are muted in this conversation."],
  SVC_BANNED: [403, "FORBIDDEN", "You are banned from this conversation."],
  SVC_BLOCKED: [403, "FORBIDDEN", "The other member takes no messages from you."],
  SVC_MESSAGE_REFUSED: [403, "FORBIDDEN", "The message was refused."],

  SVC_ROUTE_NOT_FOUND: [404, "NOT_FOUND", "There is no such route."],
  SVC_PROJECT_NOT_FOUND: [404, "NOT_FOUND", "There is no such project."],
  SVC_ROOM_NOT_FOUND: [404, "NOT_FOUND", "There is no such room."],
  SVC_PARTICIPANT_NOT_FOUND: [404, "NOT_FOUND", "There is no such participant in the room."],
  SVC_TRACK_NOT_FOUND: [404, "NOT_FOUND", "The participant publishes no such track."],
  SVC_RTC_TOKEN_NOT_FOUND: [404, "NOT_FOUND", "There is no such RTC token."],
  SVC_CHAT_TOKEN_NOT_FOUND: [404, "NOT_FOUND", "There is no such chat token."],
  SVC_RTC_SERVER_NOT_FOUND: [404, "NOT_FOUND", "There is no such media server."],
  SVC_CONVERSATION_NOT_FOUND: [404, "NOT_FOUND", "There is no such conversation."],
  SVC_MEMBER_NOT_FOUND: [404, "NOT_FOUND", "There is no such member."],
  SVC_MESSAGE_NOT_FOUND: [404, "NOT_FOUND", "There is no such message."],
  SVC_ATTACHMENT_NOT_FOUND: [404, "NOT_FOUND", "There is no such attachment."],
  SVC_STREAM_NOT_FOUND: [404, "NOT_FOUND", "There is no such live stream."],
  SVC_HOST_NOT_FOUND: [404, "NOT_FOUND", "The live stream has no such host."],
  SVC_CONNECTION_NOT_FOUND: [404, "NOT_FOUND", "There is no such connection."],
  SVC_DUMP_NOT_FOUND: [404, "NOT_FOUND", "The connection has no such dump."],
  SVC_RECORDING_NOT_FOUND: [404, "NOT_FOUND", "There is no such recording."],
  SVC_RECORDING_FILE_NOT_FOUND: [404, "NOT_FOUND", "The recording has no such file."],
  SVC_CALL_NOT_FOUND: [404, "NOT_FOUND", "There is no such call."],
  SVC_RING_NOT_FOUND: [404, "NOT_FOUND", "There is no such ring."],
  SVC_REPORT_NOT_FOUND: [404, "NOT_FOUND", "There is no such report."],
  SVC_PUSH_SUBSCRIPTION_NOT_FOUND: [404, "NOT_FOUND", "There is no such push subscription."],
  SVC_EXPORT_NOT_FOUND: [404, "NOT_FOUND", "There is no such export."],
  SVC_ERROR_NOT_FOUND: [404, "NOT_FOUND", "There is no such error record."],
  SVC_WEBHOOK_NOT_FOUND: [404, "NOT_FOUND", "There is no such webhook endpoint."],
  SVC_DELIVERY_NOT_FOUND: [404, "NOT_FOUND", "There is no such delivery."],
  SVC_API_KEY_NOT_FOUND: [404, "NOT_FOUND", "There is no such API key."],
  SVC_INVITATION_NOT_FOUND: [404, "NOT_FOUND", "There is no such invitation."],
  SVC_SESSION_NOT_FOUND: [404, "NOT_FOUND", "There is no such session."],
  SVC_PASSKEY_NOT_FOUND: [404, "NOT_FOUND", "There is no such passkey."],
  SVC_OAUTH_PROVIDER_NOT_FOUND: [404, "NOT_FOUND", "There is no such sign-in provider."],
  SVC_USER_NOT_FOUND: [404, "NOT_FOUND", "There is no such user."],

  SVC_METHOD_NOT_ALLOWED: [405, "METHOD_NOT_ALLOWED", "The route exists, but not with this method."],
  SVC_UNSUPPORTED_MEDIA_TYPE: [415, "UNSUPPORTED_MEDIA_TYPE", "Send the body as application/json."],

  SVC_CONFLICT: [409, "CONFLICT", "This is already taken."],
  SVC_HLS_UNAVAILABLE: [409, "CONFLICT", "The live stream is not available as HLS."],
  SVC_COMPOSER_UNAVAILABLE: [409, "CONFLICT", "Compositions need ffmpeg, which is not installed on the server."],
  SVC_ROOM_CLOSED: [409, "CONFLICT", "The room is closed."],
  SVC_ROOM_ENCRYPTED: [
    409,
    "CONFLICT",
    "The room takes end-to-end encrypted tracks only, which the server cannot read.",
  ],
  SVC_ROOM_PUBLISHERS_FULL: [
    409,
    "CONFLICT",
    "As many participants publish in the room as may at once. Another one has to stop publishing first.",
  ],
  SVC_STREAM_INVALID_STATE: [409, "CONFLICT", "The live stream is not in a state that allows this."],
  SVC_CONVERSATION_ARCHIVED: [409, "CONFLICT", "The conversation is archived. Re-open it first."],
  SVC_MESSAGE_DELETED: [409, "CONFLICT", "The message was deleted."],
  SVC_RING_OVER: [409, "CONFLICT", "The ring is over."],
  SVC_ATTACHMENT_NOT_READY: [409, "CONFLICT", "The upload is not complete."],
  SVC_REACTION_LIMIT_REACHED: [409, "CONFLICT", "The message has the maximum number of reactions."],
  SVC_LIMIT_REACHED: [409, "CONFLICT", "The maximum number is reached. Delete one first."],
  SVC_LAST_OWNER: [409, "CONFLICT", "A project keeps at least one owner."],
  SVC_IDEMPOTENCY_IN_PROGRESS: [409, "CONFLICT", "The first request with this Idempotency-Key is still running."],

  SVC_PRECONDITION_FAILED: [412, "PRECONDITION_FAILED", "If-Match names another state than the current one."],
  SVC_PRECONDITION_REQUIRED: [
    428,
    "PRECONDITION_REQUIRED",
    "Send If-Match with the last ETag, or * for a new ICE session.",
  ],

  SVC_PAYLOAD_TOO_LARGE: [413, "PAYLOAD_TOO_LARGE", "The body is too large."],
  SVC_ATTACHMENT_TOO_LARGE: [413, "PAYLOAD_TOO_LARGE", "The attachment is too large."],
  SVC_RANGE_NOT_SATISFIABLE: [416, "RANGE_NOT_SATISFIABLE", "The file has no such range of bytes."],
  SVC_IDEMPOTENCY_KEY_REUSED: [422, "CONFLICT", "This Idempotency-Key was used with another body."],

  SVC_RATE_LIMITED: [429, "RATE_LIMITED", "Too many requests. Try again later."],
  SVC_SLOW_MODE: [429, "RATE_LIMITED", "The conversation is in slow mode. Try again later."],

  SVC_INTERNAL_ERROR: [500, "INTERNAL_ERROR", "Something went wrong on the server."],
  SVC_NO_RTC_CAPACITY: [503, "UNAVAILABLE", "No media server has capacity for this."],
  SVC_RTC_SERVER_UNREACHABLE: [503, "UNAVAILABLE", "The media server does not respond."],
  SVC_STORAGE_FULL: [507, "UNAVAILABLE", "There is not enough storage space."],
  SVC_STORAGE_UNAVAILABLE: [503, "UNAVAILABLE", "The storage of attachments does not respond. Try again later."],
  SVC_FILTER_UNAVAILABLE: [
    503,
    "UNAVAILABLE",
    "Messages are checked before they are sent, and the check does not respond.",
  ],
  SVC_OVERLOADED: [503, "UNAVAILABLE", "The server is overloaded. Try again."],
  SVC_STANDBY: [503, "UNAVAILABLE", "This server is a standby, and another one leads. Try again."],
  SVC_LEADER_LOST: [
    503,
    "UNAVAILABLE",
    "The server that leads stopped responding. It is unknown whether the change was made. Try again.",
  ],
  SVC_COMMIT_LOG_UNAVAILABLE: [
    503,
    "UNAVAILABLE",
    "The commit log does not respond. It is unknown whether the change was made. Try again later.",
  ],
  SVC_SHUTTING_DOWN: [503, "UNAVAILABLE", "The server is shutting down."],
} as const satisfies Record<`SVC_${string}`, readonly [status: number, legacyCode: string, message: string]>;

export type ErrorCode = keyof typeof ERRORS;

export type FieldProblem = { field: string; message: string };

/** Fields that some errors add to the envelope. */
type ErrorExtra = {
  details?: FieldProblem[];
  retryAfterSeconds?: number;
  status?: string;
  [field: string]: unknown;
};

export class ApiError extends Error {
  readonly status: number;
  readonly legacyCode: string;

  /** `message` replaces the text of the catalogue; clients see it, so it must not contain a secret. */
  constructor(
    readonly code: ErrorCode,
    message?: string,
    readonly extra: ErrorExtra = {},
  ) {
    const [status, legacyCode, text] = ERRORS[code];
    super(message ?? text);
    this.name = "ApiError";
    this.status = status;
    this.legacyCode = legacyCode;
  }
}

export function invalid(field: string, message: string): ApiError {
  return new ApiError("SVC_VALIDATION_FAILED", `${field}: ${message}`, { details: [{ field, message }] });
}

/** Codes of error frames that REST does not have. */
const FRAME_ERROR_CODES = [
  "INVALID_MESSAGE",
  "UNKNOWN_TYPE",
  "NOT_IN_ROOM",
  "TOO_MANY_SUBSCRIPTIONS",
  "ROOM_FULL",
  "ROOM_LOCKED",
  "IN_LOBBY",
  "LOBBY_FULL",
  "LOBBY_DENIED",
  "JOIN_TIMEOUT",
  "NEGOTIATION_FAILED",
] as const;

type WithoutPrefix<Code> = Code extends `SVC_${infer Rest}` ? Rest : never;
/** Error frames use the codes of the catalogue without their prefix, and a few additional codes. */
export type FrameErrorCode = (typeof FRAME_ERROR_CODES)[number] | WithoutPrefix<ErrorCode>;

export function frameCode(code: ErrorCode): FrameErrorCode {
  return code.slice("SVC_".length) as WithoutPrefix<ErrorCode>;
}
