import { useCallback, useEffect, useState } from "react";
import {
  type Chat,
  type ConnectionState,
  type Conversation,
  connectChat,
  type LocalMessage,
  type Message,
  type SendInput,
  type StoaError,
} from "../sdk/index.ts";
import { useSnapshot } from "./external-store.ts";
import { asError } from "./failure.ts";

export type ChatStatus = { chat: Chat | null; state: ConnectionState; error: StoaError | null };
const IDLE: ChatStatus = { chat: null, state: "CONNECTING", error: null };

/** A user's chat for as long as the component is mounted; without a token there is none. */
export function useChat(endpoint: string | undefined, token: string | undefined): ChatStatus {
  const [status, setStatus] = useState(IDLE);
  useEffect(() => {
    if (!endpoint || !token) return;
    let left = false;
    let opened: Chat | null = null;
    const begin = async () => {
      try {
        const chat = await connectChat(endpoint, token);
        if (left) return chat.close();
        opened = chat;
        chat.on("connectionStateChanged", (state, error) =>
          setStatus({ chat: state === "FAILED" ? null : chat, state, error }),
        );
        setStatus({ chat, state: chat.state, error: null });
      } catch (error) {
        if (!left) setStatus({ chat: null, state: "FAILED", error: asError(error) });
      }
    };
    const timer = setTimeout(begin, 0);
    return () => {
      left = true;
      clearTimeout(timer);
      opened?.close();
      setStatus(IDLE);
    };
  }, [endpoint, token]);
  return status;
}

export type ConversationStatus = {
  conversation: Conversation | null;
  /** Oldest first: what was loaded, what arrived, and what is still on its way. */
  messages: readonly LocalMessage[];
  send: (input: string | SendInput) => Promise<Message>;
  error: StoaError | null;
};

const NONE: readonly LocalMessage[] = [];
const onMessages = (conversation: Conversation | null) => (changed: () => void) =>
  conversation?.on("messagesChanged", changed) ?? (() => {});

/** One conversation by id, name, or the id of its room; `chat` is what `useChat` gave. */
export function useConversation(chat: Chat | ChatStatus | null, room: string | undefined): ConversationStatus {
  const [joined, setJoined] = useState<{ conversation: Conversation | null; error: StoaError | null }>({
    conversation: null,
    error: null,
  });
  const connection = chat !== null && "chat" in chat ? chat.chat : chat;
  useEffect(() => {
    if (!connection || !room) return;
    let left = false;
    connection.join(room).then(
      (conversation) => !left && setJoined({ conversation, error: null }),
      (error) => !left && setJoined({ conversation: null, error: asError(error) }),
    );
    return () => {
      left = true;
      setJoined({ conversation: null, error: null });
    };
  }, [connection, room]);
  const { conversation, error } = joined;
  const messages = useSnapshot(conversation, onMessages, (known) => known?.messages ?? NONE);
  const send = useCallback(
    (input: string | SendInput) =>
      conversation ? conversation.send(input) : Promise.reject(new Error("the conversation is not joined yet")),
    [conversation],
  );
  return { conversation, messages, send, error };
}
