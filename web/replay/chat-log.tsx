import { useComputed } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Player } from "./player.ts";
import { clockText, type Entry, type NameOf } from "./replay.ts";

type ChatLogProps = { player: Player; messages: readonly Entry[]; nameOf: NameOf };

/** The chat up to the current position; clicking a message's time seeks to it. */
export function ChatLog({ player, messages, nameOf }: ChatLogProps) {
  const count = useComputed(() => messages.findLastIndex(({ atMs }) => atMs <= player.positionMs.value) + 1);
  const end = useRef<HTMLLIElement>(null);
  const visibleCount = count.value;
  useEffect(() => {
    if (visibleCount > 0) end.current?.scrollIntoView({ block: "nearest" });
  }, [visibleCount]);
  return (
    <aside class="chat" aria-label="Chat">
      <h2>Chat</h2>
      {visibleCount === 0 ? <p class="quiet">No messages so far.</p> : null}
      <ol>
        {messages.slice(0, visibleCount).map(({ atMs, senderId, text, messageId }) => (
          <li key={messageId}>
            <button type="button" onClick={() => player.seek(atMs)} title="Go to this moment">
              {clockText(atMs)}
            </button>
            <strong>{nameOf(senderId ?? "System")}</strong>
            <span>{text ?? "(no text)"}</span>
          </li>
        ))}
        <li ref={end} aria-hidden="true" class="end" />
      </ol>
    </aside>
  );
}
