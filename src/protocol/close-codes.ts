/** Why the server closes a WebSocket. The tables have no schemas, so that the browser SDK can include them. */

/** Close codes of both sockets. */
const SHARED = {
  malformed: 4400,
  unauthorized: 4401,
  forbidden: 4403,
  tokenExpired: 4440,
  restart: 4500,
} as const;

/** Close codes of the RTC socket, `GET /v1/rtc`. */
export const CLOSE_CODES = {
  ...SHARED,
  roomNotFound: 4404,
  joinTimeout: 4408,
  replaced: 4409,
  roomClosed: 4410,
  frameTooLarge: 4413,
  roomFull: 4423,
  tooManyAttempts: 4429,
  noCapacity: 4503,
} as const;
export type CloseCode = (typeof CLOSE_CODES)[keyof typeof CLOSE_CODES];

/** The chat socket, `GET /v1/chat/ws`. */
export const CHAT_CLOSE_CODES = {
  ...SHARED,
  frameTooLarge: 1009,
  slow: 4408,
  tooManyConnections: 4429,
} as const;
