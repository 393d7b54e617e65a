import { useState } from "preact/hooks";
import { type CallEntry, type CallLane, kindOf, OTHERS } from "../../call-story.ts";
import { words } from "../states.tsx";
import { durationText } from "../time.tsx";
import { Mark, TimeAxis } from "./marks.tsx";

/** A public stage has thousands; the first of them are enough to begin with. */
const SHOWN_AT_FIRST = 30;

/** Everybody in a call on one time line: how it was for them as colour, what they did as marks. */
export function Lanes({ lanes, durationMs }: { lanes: CallLane[]; durationMs: number }) {
  const [all, setAll] = useState(false);
  const span = Math.max(durationMs, 1);
  const place = (at: number) => `${(Math.min(Math.max(at, 0), span) / span) * 100}%`;
  const shown = all ? lanes : lanes.slice(0, SHOWN_AT_FIRST);
  return (
    <figure class="card lanes">
      <figcaption class="legend small">
        {["excellent", "good", "poor", "lost"].map((quality) => (
          <span key={quality} class={quality}>
            {words(quality)}
          </span>
        ))}
        <span class="unknown">Not measured</span>
      </figcaption>
      {shown.map(({ identity, spans, marks }) => (
        <div key={identity} class="person">
          <span class="small" title={identity}>
            {identity}
          </span>
          <div class={identity === OTHERS ? "track chat" : "track"}>
            <div class="band" role="img" aria-label={`${identity}: ${spoken(spans)}`}>
              {spans.map(({ from, until, quality }) => (
                <span
                  key={from}
                  class={quality ?? "unknown"}
                  style={{ left: place(from), width: `calc(${place(until)} - ${place(from)})` }}
                  title={`${words(quality ?? "not measured")} for ${durationText(until - from)}`}
                />
              ))}
            </div>
            {marks.map(({ at, kind, entries }) => {
              const told = entries.map(({ entry }) => `${entryText(entry)}, +${durationText(entry.atMs)}`);
              return <Mark key={at} kind={kind} href={`#entry-${entries[0]?.index}`} left={place(at)} told={told} />;
            })}
          </div>
        </div>
      ))}
      <TimeAxis spanMs={span} />
      {shown.length < lanes.length && (
        <div>
          <button type="button" class="button" onClick={() => setAll(true)}>
            Show all {lanes.length}
          </button>
        </div>
      )}
    </figure>
  );
}

/** The same in words, one after the other. */
export function CallStory({ entries }: { entries: CallEntry[] }) {
  return (
    <ol class="story">
      {entries.map((entry, index) => (
        <li key={index} id={`entry-${index}`} class={kindOf(entry) ?? "quality"}>
          <span class="quiet mono small">+{durationText(entry.atMs)}</span>
          <span>
            <b>{entry.identity ?? String(entry.senderId ?? "")}</b> {entryText(entry)}
          </span>
        </li>
      ))}
    </ol>
  );
}

function spoken(spans: CallLane["spans"]): string {
  if (spans.length === 0) return "not in the call";
  return spans
    .map(({ quality, from, until }) => `${quality ?? "not measured"} for ${durationText(until - from)}`)
    .join(", then ");
}

/** What happened, as one would say it. */
export function entryText(entry: CallEntry): string {
  const { type, reason, source, kind, quality, message, path, limitation, seconds } = entry;
  switch (type) {
    case "participant.joined":
      return "joined";
    case "participant.left":
      return reason === "left" || reason === null ? "left" : `left: ${words(String(reason)).toLowerCase()}`;
    case "track.published":
      return `shared ${SOURCES[String(source)] ?? `a ${kind} track`}`;
    case "track.unpublished":
      return "stopped sharing a track";
    case "quality.changed":
      return `had ${quality === "lost" ? "no connection" : `${quality} quality`}`;
    case "encoder.limited":
      return `was held back by ${limitation === "cpu" ? "the processor" : "the upload"} for ${seconds} s`;
    case "reconnecting":
      return `lost the ${path === "signaling" ? "socket" : "media"}`;
    case "reconnected":
      return `got the ${path === "signaling" ? "socket" : "media"} back`;
    case "media.stalled":
      return "sent no media any more";
    case "media.flows":
      return "sent media again";
    case "error":
      return `had an error: ${message}`;
    case "message":
      return "wrote a message";
    default:
      return type;
  }
}

const SOURCES: Record<string, string> = {
  camera: "the camera",
  microphone: "the microphone",
  screenShare: "the screen",
  screenShareAudio: "the sound of the screen",
};
