import { useEffect, useState } from "react";
import { type ChatStatus, type ConversationStatus, useChat, useConversation } from "./chat-hooks.ts";

/** What your backend minted for a host or a viewer. */
export type LiveStreamCredentials = {
  streamId: string;
  rtc: { endpoint: string; token: string; roomId: string };
  chat: { endpoint: string; token: string };
};

export type LiveStreamStatus = ConversationStatus & {
  chat: ChatStatus;
  /** CREATED, LIVE or ENDED, as far as it was told; null before. */
  status: string | null;
  viewerCount: number | null;
};

/** The chat of a live stream, and how it fares; its picture is the room: put `<StoaRoom {...credentials.rtc}>` beside it. */
export function useLiveStream(credentials: LiveStreamCredentials): LiveStreamStatus {
  const chat = useChat(credentials.chat.endpoint, credentials.chat.token);
  const conversation = useConversation(chat, credentials.rtc.roomId);
  const [told, setTold] = useState<{ status: string | null; viewerCount: number | null }>({
    status: null,
    viewerCount: null,
  });
  const { streamId } = credentials;
  useEffect(() => {
    return conversation.conversation?.on("streamUpdated", (update) => {
      if (update.streamId === streamId) setTold({ status: update.status, viewerCount: update.viewerCount });
    });
  }, [conversation.conversation, streamId]);
  return { ...conversation, chat, ...told };
}
