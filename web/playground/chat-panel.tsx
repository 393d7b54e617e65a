import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { openWhenKnown } from "../react/conference/open-when-known.ts";
import type { Conversation, LocalMessage } from "../sdk/index.ts";
import { Icon } from "./icon.tsx";
import { attempt, changes, notify } from "./session.ts";

type ChatPanelProps = { conversation: Conversation; me: string };

const EMOJI = ["👍", "❤️", "😂", "🎉"];

export function ChatPanel({ conversation, me }: ChatPanelProps) {
  const text = useSignal("");
  const progress = useSignal<{ part: number; stop: AbortController } | null>(null);
  const readBy = useSignal(new Map<string, string>());
  const list = useRef<HTMLOListElement>(null);
  const messages = changes.value >= 0 ? conversation.messages : [];
  const others = conversation.typing.map(({ userId }) => userId);

  useEffect(() => {
    return conversation.on("read", ({ userId, messageId }) => {
      if (userId !== me) readBy.value = new Map(readBy.value).set(userId, messageId);
    });
  }, [conversation]);
  const last = messages.at(-1);
  useEffect(() => {
    list.current?.scrollTo({ top: list.current.scrollHeight });
    if (last && last.status === "sent" && last.senderId !== me) conversation.markRead(last.id).catch(() => {});
  }, [last?.id]);

  const sendFile = async (file: File) => {
    const stop = new AbortController();
    progress.value = { part: 0, stop };
    try {
      await conversation.sendFile(file, {
        signal: stop.signal,
        onProgress: (part) => {
          progress.value = { part, stop };
        },
      });
    } catch (error) {
      notify((error as Error).message);
    }
    progress.value = null;
  };

  return (
    <section class="chat" aria-label="Chat">
      {conversation.hasOlder && messages.length >= 50 && (
        <button type="button" class="button quiet" onClick={attempt(() => conversation.loadOlder())}>
          Earlier messages
        </button>
      )}
      {messages.length === 0 && <p class="quiet empty">No messages yet.</p>}
      <ol ref={list} class="messages">
        {messages.map((message) => (
          <Message
            key={message.clientMessageId ?? message.id}
            {...{ message, conversation, me }}
            readBy={readBy.value}
          />
        ))}
      </ol>
      <p class="typing quiet" aria-live="polite">
        {others.length > 0 && `${others.join(", ")} ${others.length === 1 ? "is" : "are"} typing …`}
      </p>
      {progress.value && (
        <p class="upload">
          <progress value={progress.value.part} aria-label="Upload" />
          <button type="button" class="button quiet" onClick={() => progress.value?.stop.abort()}>
            Cancel
          </button>
        </p>
      )}
      <form
        class="compose"
        onSubmit={(event) => {
          event.preventDefault();
          const sent = text.value.trim();
          text.value = "";
          if (sent !== "") attempt(() => conversation.send(sent))();
        }}
      >
        <label class="button attach" title="Send a file">
          <span aria-hidden="true">+</span>
          <input
            type="file"
            aria-label="Send a file"
            onChange={({ currentTarget }) => {
              const [file] = currentTarget.files ?? [];
              currentTarget.value = "";
              if (file) void sendFile(file);
            }}
          />
        </label>
        <input
          class="input"
          aria-label="Message"
          placeholder="Message"
          value={text}
          onInput={({ currentTarget }) => {
            text.value = currentTarget.value;
            conversation.startTyping();
          }}
        />
        <button class="button primary" type="submit">
          Send
        </button>
      </form>
    </section>
  );
}

type MessageProps = { message: LocalMessage; conversation: Conversation; me: string; readBy: Map<string, string> };

function Message({ message, conversation, me, readBy }: MessageProps) {
  const { id, senderId, senderName, text, attachment, reactions, deleted, edited, status } = message;
  const readers = [...readBy].filter(([, messageId]) => messageId === id).map(([userId]) => userId);
  const react = (emoji: string) => {
    const mine = reactions.find((one) => one.emoji === emoji)?.userIds.includes(me);
    return mine ? conversation.unreact(id, emoji) : conversation.react(id, emoji);
  };
  return (
    <li class={senderId === me ? "message mine" : "message"}>
      {senderId !== me && <strong>{senderName}</strong>}
      {deleted ? <em class="quiet">deleted</em> : <p>{text}</p>}
      {attachment && !deleted && <AttachmentLink {...{ attachment, conversation }} />}
      {status === "sent" && !deleted && (
        <div class="reactions">
          {EMOJI.map((emoji) => {
            const found = reactions.find((one) => one.emoji === emoji);
            return (
              <button
                key={emoji}
                type="button"
                class={`reaction ${found ? "given" : ""} ${found?.userIds.includes(me) ? "mine" : ""}`}
                aria-label={`React with ${emoji}`}
                title={found?.userIds.join(", ")}
                onClick={attempt(() => react(emoji))}
              >
                {emoji}
                {found && ` ${found.count}`}
              </button>
            );
          })}
        </div>
      )}
      <small class="quiet">
        {[
          edited && "edited",
          status === "sending" && "sending …",
          readers.length > 0 && `read by ${readers.join(", ")}`,
        ]
          .filter(Boolean)
          .join(", ")}
      </small>
      {status === "failed" && (
        <button type="button" class="button" onClick={attempt(() => conversation.retry(message))}>
          Not sent. Try again
        </button>
      )}
    </li>
  );
}

type AttachmentProps = { attachment: NonNullable<LocalMessage["attachment"]>; conversation: Conversation };

/** Shows an image, or a link for any other file. Download URLs are signed and expire, so each one is requested when needed. */
function AttachmentLink({ attachment: { id, filename, mimeType, size }, conversation }: AttachmentProps) {
  const imageUrl = useSignal<string | null>(null);
  useEffect(() => {
    if (!IMAGE_TYPES.has(mimeType)) return;
    conversation.downloadUrl(id).then(
      (url) => {
        imageUrl.value = url;
      },
      () => {},
    );
  }, [id]);
  const show = attempt(() => openWhenKnown(conversation.downloadUrl(id)));
  return (
    <button type="button" class="button file" onClick={show}>
      {imageUrl.value ? <img src={imageUrl.value} alt="" /> : <Icon name="file" />}
      <span>
        {filename} ({Math.ceil(size / 1024)} KB)
      </span>
    </button>
  );
}

const IMAGE_TYPES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"]);
