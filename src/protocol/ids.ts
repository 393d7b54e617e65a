/** The prefixes of public ids; the rest is 24 base62 characters, which sort by time (24 random hex for a request id). */
export const ID_PREFIX = {
  request: "req_",
  conversation: "conv_",
  message: "msg_",
  attachment: "att_",
  audit: "aud_",
  event: "evt_",
  stream: "stream_",
  chatToken: "ctk_",
  call: "call_",
  recording: "rec_",
  egress: "EG_",
  ingress: "IN_",
  ring: "ring_",
  report: "rep_",
  pushSubscription: "psh_",
} as const;

export type PublicIdKind = keyof typeof ID_PREFIX;

/** URLs resolve `.` and `..` in paths, even encoded, so nothing that a path names may be called so. */
export const isDotSegment = (text: string): boolean => text === "." || text === "..";

/** Names of rooms, conversations and servers; not a dot segment. */
export const NAME_PATTERN = "^(?!\\.{1,2}$)[A-Za-z0-9._-]{1,128}$";
/** `metrics` and `register` are paths under /v1/rtc/servers. */
export const SERVER_NAME_PATTERN = "^(?!(?:metrics|register|\\.{1,2})$)[A-Za-z0-9._-]{1,128}$";
export const MAX_REGION_LENGTH = 64;
/** Identities that the developer chooses: of participants, users, hosts, senders, and connection ids. */
export const IDENTITY_PATTERN = "^(?!\\.{1,2}$)[A-Za-z0-9._@:+=|-]{1,128}$";
/**
 * Identities and room names in LiveKit's tokens and API: any text without control characters, lone surrogates, bidirectional
 * overrides and white space at either end, except `.` and `..`.
 */
const FOREIGN_NAME = /^(?!\s|\.{1,2}$)[^\p{Cc}\p{Cs}\u202a-\u202e\u2066-\u2069]{1,256}(?<!\s)$/u;

/** The name in its stored form; null when it is not allowed. */
export function foreignName(text: unknown): string | null {
  if (typeof text !== "string" || text.length > 1_024) return null;
  const name = text.normalize("NFC");
  return FOREIGN_NAME.test(name) ? name : null;
}

/** `type/subtype` of RFC 6838. */
export const MIME_PATTERN = "^[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}$";
export const UUID_PATTERN = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
export const REQUEST_ID_PATTERN = /^[A-Za-z0-9_-]{1,64}$/;

const MATRIX_SERVER_NAME = /^(?:[a-z\d](?:[a-z\d.-]{0,228}[a-z\d])?|\[[\da-f:.]{2,45}\])(?::\d{1,5})?$/i;

/** A host name or IP address with an optional port, as it follows the colon of a Matrix user id. */
export const isMatrixServerName = (text: string): boolean => MATRIX_SERVER_NAME.test(text);
