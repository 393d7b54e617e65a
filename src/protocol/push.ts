/** Web Push, as the wire shows it: shared by REST, the browser SDK and whoever writes a service worker. */
import { type Static, Type } from "@sinclair/typebox";
import { literals } from "./literals.ts";

/** `mentions`: mentions and rings; `none`: nothing at all. */
export const NOTIFICATION_LEVELS = ["all", "mentions", "none"] as const;
export const NotificationLevel = literals(NOTIFICATION_LEVELS);
export type NotificationLevel = Static<typeof NotificationLevel>;

const Text = Type.String();
const NullableText = Type.Union([Type.String(), Type.Null()]);

/** What a service worker finds in `event.data.json()`. */
export const PushPayload = Type.Object({
  type: literals(["message", "mention", "ring", "missed_call"] as const),
  conversationId: Text,
  conversationName: Text,
  /** Whose message or call it is; null: the server's. */
  senderId: NullableText,
  /** The beginning of a message. */
  text: NullableText,
  messageId: NullableText,
  ringId: NullableText,
  roomId: NullableText,
  unreadCount: Type.Integer(),
  /** Same for what replaces each other: fit for a notification's `tag`. */
  tag: Text,
  at: Text,
});
export type PushPayload = Static<typeof PushPayload>;
