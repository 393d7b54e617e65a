import { httpUrl, webhookSecret } from "./checks.ts";
import { choice, integer, optional, secret } from "./variable.ts";

const perWindow = { min: 1, max: 1_000_000 };

export const chatVariables = {
  CHAT_MAX_TEXT_LENGTH: integer(4000, { min: 1, max: 100_000 }, "Characters (code points) in a message."),
  CHAT_MAX_METADATA_BYTES: integer(4096, { min: 1, max: 65_536 }, "Bytes of a message's metadata as JSON."),
  CHAT_MAX_FRAME_BYTES: integer(65_536, { min: 1024, max: 1_048_576 }, "Bytes of a frame on the chat socket."),
  CHAT_MAX_REACTIONS_PER_MESSAGE: integer(200, { min: 1, max: 10_000 }, "Reactions (user and emoji) on a message."),
  CHAT_MAX_ROOM_SUBSCRIPTIONS: integer(20, { min: 1, max: 10_000 }, "Conversations joined on one chat connection."),
  CHAT_MAX_HISTORY_PAGE_SIZE: integer(100, { min: 1, max: 1000 }, "Messages on a page of history."),
  CHAT_TOKEN_DEFAULT_TTL_SECONDS: integer(
    3600,
    { min: 60, max: 21_600 },
    "Lifetime of a chat token whose request sets none.",
  ),
  CHAT_TOKEN_MAX_TTL_SECONDS: integer(21_600, { min: 60, max: 21_600 }, "Longest lifetime of a chat token."),
  CHAT_PRESENCE_TTL_SECONDS: integer(45, { min: 1, max: 86_400 }, "Silence after which a user counts as offline."),
  CHAT_TYPING_TTL_SECONDS: integer(7, { min: 1, max: 3600 }, "Seconds after which a typing indicator expires."),
  CHAT_RETENTION_DAYS: integer(0, { min: 0, max: 36_500 }, "Days for which messages are kept; 0 keeps them."),
  CHAT_FRAME_RATE_LIMIT: integer(600, perWindow, "Frames of any kind on one chat connection in a window."),
  CHAT_REQUEST_RATE_LIMIT: integer(
    600,
    perWindow,
    "REST requests of any kind with the chat tokens of one user in a window; each 128 KiB of a thread count as one more.",
  ),
  CHAT_SEND_RATE_LIMIT: integer(30, perWindow, "Messages sent by one user in a window."),
  CHAT_REACTION_RATE_LIMIT: integer(60, perWindow, "Reactions by one user in a window."),
  CHAT_EDIT_RATE_LIMIT: integer(120, perWindow, "Edits and deletions by one user in a window."),
  CHAT_READ_RATE_LIMIT: integer(600, perWindow, "Times one user marks messages as read in a window."),
  CHAT_TYPING_RATE_LIMIT: integer(120, perWindow, "Typing signals by one user in a window."),
  CHAT_SUBSCRIBE_RATE_LIMIT: integer(60, perWindow, "Conversations joined by one user in a window."),
  CHAT_FILTER_URL: optional(
    httpUrl,
    "URL of your backend that is called before a user's message is stored; it can reject or rewrite the message.",
  ),
  CHAT_FILTER_SECRET: secret(webhookSecret, "Signs the requests to CHAT_FILTER_URL as webhooks are signed."),
  CHAT_FILTER_TIMEOUT_MS: integer(300, { min: 10, max: 10_000 }, "Time that CHAT_FILTER_URL has to respond."),
  CHAT_FILTER_FAILURE: choice(
    "open",
    ["open", "closed"],
    "Without a response: send the message (open) or reject it (closed).",
  ),
  CHAT_REPORT_RATE_LIMIT: integer(20, perWindow, "Messages reported, and users blocked, by one user in a window."),
  CHAT_RING_RATE_LIMIT: integer(20, perWindow, "Times one user rings others in a window."),
  CHAT_RING_TIMEOUT_SECONDS: integer(30, { min: 5, max: 300 }, "Seconds that a ring lasts when its request sets none."),
  CHAT_CONNECTION_RATE_LIMIT: integer(30, perWindow, "Chat connections from one IP address in a window."),
};
