import { useEffect, useState } from "react";
import { type ChatStatus, type ConversationStatus, useChat, useConversation } from "./chat-hooks.ts";

/** The credentials that your backend mints for a host or a viewer. */
export type LiveStreamCredentials = {
  streamId: string;
  rtc: { endpoint: string; token: string; roomId: string };
  chat: { endpoint: string; token: string };
};

export type LiveStreamStatus = ConversationStatus & {
  chat: ChatStatus;
  /** CREATED, LIVE or ENDED; null before the first update. */
  status: string | null;
  viewerCount: number | null;
};

/** The chat and the status of a live stream. For its video, render `<StoaRoom {...credentials.rtc}>` beside it. */
export function useLiveStream(credentials: LiveStreamCredentials): LiveStreamStatus {
  const chat = useChat(credentials.chat.endpoint, credentials.chat.token);
  const conversation = useConversation(chat, credentials.rtc.roomId);
  const [update, setUpdate] = useState<{ status: string | null; viewerCount: number | null }>({
    status: null,
    viewerCount: null,
  });
  const { streamId } = credentials;
  useEffect(() => {
    return conversation.conversation?.on("streamUpdated", ({ streamId: updatedId, status, viewerCount }) => {
      if (updatedId === streamId) setUpdate({ status, viewerCount });
    });
  }, [conversation.conversation, streamId]);
  return { ...conversation, chat, ...update };
}
