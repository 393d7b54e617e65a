/** @jsxImportSource react */
import { type FormEvent, useEffect, useRef, useState } from "react";
import type { LocalMessage } from "../../sdk/index.ts";
import type { ConversationStatus } from "../chat-hooks.ts";

type ChatPanelProps = Pick<ConversationStatus, "messages" | "send" | "error" | "conversation"> & { title?: string };

export function ChatPanel({ messages, send, error, conversation, title = "Chat" }: ChatPanelProps) {
  const [text, setText] = useState("");
  const [failure, setFailure] = useState<string | null>(null);
  const end = useRef<HTMLDivElement>(null);
  const last = messages.at(-1)?.id;
  useEffect(() => {
    end.current?.scrollIntoView({ block: "nearest" });
  }, [last]);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const message = text.trim();
    if (message === "") return;
    setText("");
    setFailure(null);
    send(message).catch((error: Error) => setFailure(error.message));
  };
  return (
    <>
      <h2>{title}</h2>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard */}
      <div className="stoa-log" role="log" aria-label="Messages" tabIndex={0}>
        <ol className="stoa-messages">
          {messages.length === 0 && (
            <li className="stoa-empty">{error ? error.message : conversation ? "No messages yet." : "Connecting…"}</li>
          )}
          {messages.map((message) => (
            <Message key={message.clientMessageId ?? message.id} message={message} />
          ))}
        </ol>
        <div ref={end} />
      </div>
      {failure && (
        <p className="stoa-fields" role="alert">
          {failure}
        </p>
      )}
      <form className="stoa-form" onSubmit={submit}>
        <input
          value={text}
          onInput={(event) => setText((event.target as HTMLInputElement).value)}
          onChange={() => {}}
          placeholder="Write a message"
          aria-label="Message"
          maxLength={4000}
          disabled={!conversation}
        />
        <button className="stoa-button" data-strong="" type="submit" disabled={!conversation}>
          Send
        </button>
      </form>
    </>
  );
}

function Message({ message }: { message: LocalMessage }) {
  return (
    <li data-status={message.status}>
      <b>
        {message.senderId ?? "Server"}
        {message.status === "failed" && " (not sent)"}
      </b>
      <p>{message.deleted ? "This message was deleted." : (message.text ?? message.attachment?.filename)}</p>
    </li>
  );
}
