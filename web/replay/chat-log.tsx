import { useComputed } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Player } from "./player.ts";
import { clockText, type Entry } from "./replay.ts";

/** The chat as it was said: a message is there from its moment on, and leads back to it. */
export function ChatLog({ player, messages }: { player: Player; messages: readonly Entry[] }) {
  const count = useComputed(() => messages.findLastIndex(({ atMs }) => atMs <= player.positionMs.value) + 1);
  const end = useRef<HTMLLIElement>(null);
  const shown = count.value;
  useEffect(() => {
    if (shown > 0) end.current?.scrollIntoView({ block: "nearest" });
  }, [shown]);
  return (
    <aside class="chat" aria-label="Chat">
      <h2>Chat</h2>
      {shown === 0 ? <p class="quiet">Nothing was said so far.</p> : null}
      <ol>
        {messages.slice(0, shown).map(({ atMs, senderId, text, messageId }) => (
          <li key={messageId}>
            <button type="button" onClick={() => player.seek(atMs)} title="Go to this moment">
              {clockText(atMs)}
            </button>
            <strong>{senderId ?? "server"}</strong>
            <span>{text ?? "(no text)"}</span>
          </li>
        ))}
        <li ref={end} aria-hidden="true" class="end" />
      </ol>
    </aside>
  );
}
