import { signal } from "@preact/signals";
import { RENDERED_ROOM_EVENTS } from "../room-events.ts";
import { type Chat, type Conversation, connect, connectChat, type Room, type RoomEvents } from "../sdk/index.ts";
import { type Credentials, join } from "./credentials.ts";

/** A call that goes on: the room, and its conversation where there is one. */
export type Session = {
  room: Room;
  chat: Chat | null;
  conversation: Conversation | null;
  credentials: Credentials;
};

/** Counts up whenever anything in the session has changed: what reads it is drawn again. */
export const changes = signal(0);
export const notice = signal<string | null>(null);
export const streamStatus = signal<string | null>(null);
export const viewers = signal<number | null>(null);
export const needsClick = signal(false);

const ROOM_EVENTS: (keyof RoomEvents)[] = [
  ...RENDERED_ROOM_EVENTS,
  "activeSpeakersChanged",
  "qualityChanged",
  "permissionsChanged",
];
const CONVERSATION_EVENTS = ["messagesChanged", "typingChanged", "presenceChanged", "read"] as const;

export async function openSession(credentials: Credentials, onEnd: (why: string) => void): Promise<Session> {
  const { rtc, chat: chatCredentials, conversationId, mode, identity } = credentials;
  // In `stoa dev` fresh tokens are there for the asking, so that not even an hour offline ends the call.
  const renew =
    chatCredentials && rtc.roomId && mode === "call" ? () => join({ room: room.name, identity, mode }) : null;
  const room: Room = await connect(rtc.endpoint, rtc.token, {
    tokenProvider: renew ? async () => (await renew()).rtc.token : undefined,
  });
  const changed = () => {
    changes.value += 1;
  };
  for (const event of ROOM_EVENTS) room.on(event, changed);
  room.on("error", ({ message }) => say(message));
  room.on("audioBlocked", () => {
    needsClick.value = true;
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

/** Says something for a few seconds. */
export function say(text: string): void {
  notice.value = text;
  setTimeout(() => {
    if (notice.value === text) notice.value = null;
  }, 6_000);
}

/** For what a click starts: a failure is told, not thrown. */
export function attempt(work: () => Promise<unknown>): () => void {
  return () => void work().catch((error: Error) => say(error.message));
}
