import { signal } from "@preact/signals";
import { RENDERED_ROOM_EVENTS } from "../room-events.ts";
import { type Chat, type Conversation, connect, connectChat, type Room, type RoomEvents } from "../sdk/index.ts";
import { type Credentials, join } from "./credentials.ts";

/** An active call: the room and its conversation, if it has one. */
export type Session = {
  room: Room;
  chat: Chat | null;
  conversation: Conversation | null;
  credentials: Credentials;
};

/** Increases whenever anything in the session changes, so that components that read it render again. */
export const changes = signal(0);
export const notice = signal<string | null>(null);
export const streamStatus = signal<string | null>(null);
export const viewers = signal<number | null>(null);
export const audioBlocked = signal(false);

const ROOM_EVENTS: (keyof RoomEvents)[] = [
  ...RENDERED_ROOM_EVENTS,
  "activeSpeakersChanged",
  "qualityChanged",
  "permissionsChanged",
];
const CONVERSATION_EVENTS = ["messagesChanged", "typingChanged", "presenceChanged", "read"] as const;

export async function openSession(credentials: Credentials, onEnd: (reason: string) => void): Promise<Session> {
  const { rtc, chat: chatCredentials, conversationId, mode, identity, encryption } = credentials;
  // `stoa dev` mints new tokens on request, so that even an hour offline does not end the call.
  const renew =
    chatCredentials && rtc.roomId && mode === "call" ? () => join({ room: room.name, identity, mode }) : null;
  const room: Room = await connect(rtc.endpoint, rtc.token, {
    tokenProvider: renew ? async () => (await renew()).rtc.token : undefined,
    encryption,
  });
  const changed = () => {
    changes.value += 1;
  };
  for (const event of ROOM_EVENTS) room.on(event, changed);
  room.on("error", ({ message }) => notify(message));
  room.on("audioBlocked", () => {
    audioBlocked.value = true;
  });
  room.on("connectionStateChanged", (state, error) => {
    if (state === "FAILED" || state === "DISCONNECTED") onEnd(error?.message ?? "The call has ended.");
  });

  const chat = chatCredentials ? await connectChat(chatCredentials.endpoint, chatCredentials.token) : null;
  const conversation = chat && conversationId ? await chat.join(conversationId) : null;
  for (const event of CONVERSATION_EVENTS) conversation?.on(event, changed);
  conversation?.on("streamUpdated", ({ status, viewerCount }) => {
    streamStatus.value = status;
    viewers.value = viewerCount;
  });
  streamStatus.value = credentials.streamStatus ?? null;
  return { room, chat, conversation, credentials };
}

/** Shows a notice for a few seconds. */
export function notify(text: string): void {
  notice.value = text;
  setTimeout(() => {
    if (notice.value === text) notice.value = null;
  }, 6_000);
}

/** Wraps a click handler so that a failure is shown as a notice. */
export function attempt(work: () => Promise<unknown>): () => void {
  return () => void work().catch((error: Error) => notify(error.message));
}
