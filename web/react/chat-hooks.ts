import { useCallback, useEffect, useRef, useState } from "react";
import {
  type Chat,
  type ConnectionState,
  type Conversation,
  connectChat,
  type LocalMessage,
  type Message,
  type SendInput,
  type StoaError,
  type TokenProvider,
} from "../sdk/index.ts";
import { useSnapshot } from "./external-store.ts";
import { toStoaError } from "./to-stoa-error.ts";

export type ChatStatus = { chat: Chat | null; state: ConnectionState; error: StoaError | null };
const IDLE: ChatStatus = { chat: null, state: "CONNECTING", error: null };

export type UseChatOptions = {
  /** Returns a new token when the old one has expired during a reconnection. */
  tokenProvider?: TokenProvider;
};

/** Connects a user's chat while the component is mounted; without a token, `chat` stays null. */
export function useChat(
  endpoint: string | undefined,
  token: string | undefined,
  { tokenProvider }: UseChatOptions = {},
): ChatStatus {
  const [status, setStatus] = useState(IDLE);
  // The latest one is used, so that a provider that is created in each rendering does not cause a reconnection.
  const provider = useRef(tokenProvider);
  provider.current = tokenProvider;
  const hasProvider = tokenProvider !== undefined;
  useEffect(() => {
    if (!endpoint || !token) return;
    let isUnmounted = false;
    let opened: Chat | null = null;
    const start = async () => {
      try {
        const renew = hasProvider ? { tokenProvider: () => provider.current?.() ?? token } : {};
        const chat = await connectChat(endpoint, token, renew);
        if (isUnmounted) return chat.close();
        opened = chat;
        chat.on("connectionStateChanged", (state, error) =>
          setStatus({ chat: state === "FAILED" ? null : chat, state, error }),
        );
        setStatus({ chat, state: chat.state, error: null });
      } catch (error) {
        if (!isUnmounted) setStatus({ chat: null, state: "FAILED", error: toStoaError(error) });
      }
    };
    const timer = setTimeout(start, 0);
    return () => {
      isUnmounted = true;
      clearTimeout(timer);
      opened?.close();
      setStatus(IDLE);
    };
  }, [endpoint, token, hasProvider]);
  return status;
}

export type ConversationStatus = {
  conversation: Conversation | null;
  /** Loaded, received and pending messages, oldest first. */
  messages: readonly LocalMessage[];
  send: (input: string | SendInput) => Promise<Message>;
  error: StoaError | null;
};

const NONE: readonly LocalMessage[] = [];
const onMessages = (conversation: Conversation | null) => (changed: () => void) =>
  conversation?.on("messagesChanged", changed) ?? (() => {});

/** Joins one conversation by id, name or room id; `chat` is the result of `useChat`. */
export function useConversation(chat: Chat | ChatStatus | null, room: string | undefined): ConversationStatus {
  const [joined, setJoined] = useState<{ conversation: Conversation | null; error: StoaError | null }>({
    conversation: null,
    error: null,
  });
  const connection = chat !== null && "chat" in chat ? chat.chat : chat;
  useEffect(() => {
    if (!connection || !room) return;
    let isUnmounted = false;
    connection.join(room).then(
      (conversation) => !isUnmounted && setJoined({ conversation, error: null }),
      (error) => !isUnmounted && setJoined({ conversation: null, error: toStoaError(error) }),
    );
    return () => {
      isUnmounted = true;
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
