/** @jsxImportSource react */
import { type FormEvent, useEffect, useRef, useState } from "react";
import type { Conversation, LocalMessage } from "../../sdk/index.ts";
import type { ConversationStatus } from "../chat-hooks.ts";
import { AttachmentLink, type Failure, UploadProgress, useUploads } from "./attachments.tsx";
import { Icon } from "./icon.tsx";

type ChatPanelProps = Pick<ConversationStatus, "messages" | "send" | "error" | "conversation"> & { title?: string };

export function ChatPanel({ messages, send, error, conversation, title = "Chat" }: ChatPanelProps) {
  const [text, setText] = useState("");
  const [failure, setFailure] = useState<Failure | null>(null);
  const { upload, send: sendFiles } = useUploads(conversation, setFailure);
  const [dropping, setDropping] = useState(false);
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
    send(message).catch((error: Error) => setFailure({ text: error.message }));
  };
  const attach = (files: FileList | null) => {
    if (!files || files.length === 0) return false;
    sendFiles([...files]);
    return true;
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: dropping a file is a shortcut for the button below
    <div
      className="stoa-chat"
      data-dropping={dropping || undefined}
      onDragOver={(event) => {
        if (!conversation || !event.dataTransfer?.types.includes("Files")) return;
        // Without this the browser opens the file instead.
        event.preventDefault();
        setDropping(true);
      }}
      onDragLeave={() => setDropping(false)}
      onDrop={(event) => {
        setDropping(false);
        if (conversation && attach(event.dataTransfer?.files ?? null)) event.preventDefault();
      }}
    >
      <h2>{title}</h2>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard */}
      <div className="stoa-log" role="log" aria-label="Messages" tabIndex={0}>
        <ol className="stoa-messages">
          {messages.length === 0 && (
            <li className="stoa-empty">{error ? error.message : conversation ? "No messages yet." : "Connecting…"}</li>
          )}
          {messages.map((message) => (
            <Message
              key={message.clientMessageId ?? message.id}
              {...{ message, conversation }}
              onFailure={setFailure}
            />
          ))}
        </ol>
        <div ref={end} />
      </div>
      {failure && (
        <p className="stoa-failure" role="alert">
          <span>{failure.text}</span>
          {failure.retry && <TextButton text="Try again" onClick={failure.retry} />}
          <TextButton text="Dismiss" onClick={() => setFailure(null)} />
        </p>
      )}
      {upload && <UploadProgress upload={upload} />}
      <form className="stoa-form" onSubmit={submit}>
        <label className="stoa-button stoa-attach" title="Attach a file" aria-disabled={!conversation}>
          <Icon name="attach" />
          <input
            type="file"
            multiple
            aria-label="Attach a file"
            disabled={!conversation}
            onChange={(event) => {
              const input = event.target as HTMLInputElement;
              attach(input.files);
              // The same file can be chosen again.
              input.value = "";
            }}
          />
        </label>
        <input
          value={text}
          onInput={(event) => setText((event.target as HTMLInputElement).value)}
          onChange={() => {}}
          onPaste={(event) => {
            if (attach(event.clipboardData?.files ?? null)) event.preventDefault();
          }}
          placeholder="Write a message"
          aria-label="Message"
          maxLength={4000}
          disabled={!conversation}
        />
        <button className="stoa-button" data-strong="" type="submit" disabled={!conversation}>
          Send
        </button>
      </form>
    </div>
  );
}

type MessageProps = {
  message: LocalMessage;
  conversation: Conversation | null;
  onFailure: (failure: Failure | null) => void;
};

function Message({ message, conversation, onFailure }: MessageProps) {
  const { attachment, deleted, text } = message;
  const retry = () => {
    onFailure(null);
    conversation?.retry(message).catch((error: Error) => onFailure({ text: error.message }));
  };
  return (
    <li data-status={message.status}>
      <b>
        {message.senderName}
        {message.status === "failed" && " (not sent)"}
      </b>
      {deleted ? <p>This message was deleted.</p> : text && <p>{text}</p>}
      {attachment && !deleted && <AttachmentLink {...{ attachment, conversation, onFailure }} />}
      {message.status === "failed" && conversation && (
        <div className="stoa-again">
          <TextButton text="Try again" onClick={retry} />
          <TextButton text="Delete" onClick={() => conversation.discard(message)} />
        </div>
      )}
    </li>
  );
}

function TextButton({ text, onClick }: { text: string; onClick: () => void }) {
  return (
    <button className="stoa-link" type="button" onClick={onClick}>
      {text}
    </button>
  );
}
