/** @jsxImportSource react */
import type { Caption, Room } from "../../sdk/index.ts";
import { captionKey, useCaptions } from "../room-hooks.ts";
import { displayName } from "./stage.tsx";

/** Older lines would cover the video. */
const MAX_LINES = 3;
/** Of a long segment, only the end is shown. */
const MAX_SHOWN = 140;

/**
 * What is being said. The text of a segment changes while it is spoken, so screen readers get a copy of those that are
 * final.
 */
export function CaptionLines({ room }: { room: Room }) {
  const captions = useCaptions().filter(({ text }) => text.trim() !== "");
  return (
    <>
      <div className="stoa-caption-lines" aria-hidden="true">
        {captions.slice(-MAX_LINES).map((caption) => (
          <p key={captionKey(caption)} dir="auto">
            <b>{speakerOf(room, caption)}</b> {endOf(caption.text)}
          </p>
        ))}
      </div>
      <div className="stoa-hidden" role="log" aria-label="Captions">
        {captions
          .filter(({ final }) => final)
          .map((caption) => (
            <p key={captionKey(caption)}>
              {speakerOf(room, caption)}: {caption.text}
            </p>
          ))}
      </div>
    </>
  );
}

/** Anyone who may send data may caption the track of another, so the sender is named unless it is an agent. */
export function speakerOf(room: Room, { identity, from }: Caption): string {
  const speaker = displayName(room, identity);
  if (from === identity || room.participants.get(from)?.kind === "agent") return speaker;
  return `${speaker} (by ${displayName(room, from)})`;
}

/** The end of the text, from the beginning of a word. */
export function endOf(text: string): string {
  if (text.length <= MAX_SHOWN) return text;
  return `… ${text.slice(-MAX_SHOWN).replace(/^\S*\s/, "")}`;
}
