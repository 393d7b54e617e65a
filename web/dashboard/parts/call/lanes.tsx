import { useState } from "preact/hooks";
import { type CallEntry, type CallLane, CHAT_ONLY, kindOf } from "../../call-timeline.ts";
import { humanize } from "../states.tsx";
import { durationText } from "../time.tsx";
import { Mark, TimeAxis } from "./marks.tsx";

/** A public room may have thousands of participants; initially only the first ones are shown. */
const SHOWN_AT_FIRST = 30;

/** The participants of a call on one timeline: quality as colour, events as marks. */
export function Lanes({ lanes, durationMs }: { lanes: CallLane[]; durationMs: number }) {
  const [all, setAll] = useState(false);
  const span = Math.max(durationMs, 1);
  const position = (at: number) => `${(Math.min(Math.max(at, 0), span) / span) * 100}%`;
  const shown = all ? lanes : lanes.slice(0, SHOWN_AT_FIRST);
  return (
    <figure class="card lanes">
      <figcaption class="legend small">
        {["excellent", "good", "poor", "lost"].map((quality) => (
          <span key={quality} class={quality}>
            {humanize(quality)}
          </span>
        ))}
        <span class="unknown">Not measured</span>
      </figcaption>
      {shown.map(({ identity, spans, marks }) => (
        <div key={identity} class="person">
          <span class="small" title={identity}>
            {identity}
          </span>
          <div class={identity === CHAT_ONLY ? "track chat" : "track"}>
            <div class="band" role="img" aria-label={`${identity}: ${spoken(spans)}`}>
              {spans.map(({ from, until, quality }) => (
                <span
                  key={from}
                  class={quality ?? "unknown"}
                  style={{ left: position(from), width: `calc(${position(until)} - ${position(from)})` }}
                  title={`${humanize(quality ?? "not measured")} for ${durationText(until - from)}`}
                />
              ))}
            </div>
            {marks.map(({ at, kind, entries }) => {
              const texts = entries.map(({ entry }) => `${entryText(entry)}, +${durationText(entry.atMs)}`);
              return (
                <Mark key={at} kind={kind} href={`#entry-${entries[0]?.index}`} left={position(at)} texts={texts} />
              );
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

/** The entries as a list. */
export function CallEntries({ entries }: { entries: CallEntry[] }) {
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

/** The text of an entry. */
export function entryText(entry: CallEntry): string {
  const { type, reason, source, kind, quality, message, path, limitation, seconds, missingKeysOf } = entry;
  switch (type) {
    case "participant.joined":
      return "joined";
    case "participant.left":
      return reason === "left" || reason === null ? "left" : `left: ${humanize(String(reason)).toLowerCase()}`;
    case "track.published":
      return `started ${SOURCES[String(source)] ?? `publishing a ${kind} track`}`;
    case "track.unpublished":
      return "stopped publishing a track";
    case "quality.changed":
      return `had ${quality === "lost" ? "no connection" : `${quality} quality`}`;
    case "encoder.limited":
      return `sent less for ${seconds} s, limited by ${limitation === "cpu" ? "the CPU" : "the upload bandwidth"}`;
    case "keys.missing": {
      const identities = Array.isArray(missingKeysOf) ? missingKeysOf.join(", ") : "";
      return identities === "" ? "has all keys again" : `had no key for the tracks of ${identities}`;
    }
    case "reconnecting":
      return `lost the ${path === "signaling" ? "socket" : "media connection"}`;
    case "reconnected":
      return `reconnected the ${path === "signaling" ? "socket" : "media"}`;
    case "media.stalled":
      return "stopped sending media";
    case "media.flows":
      return "resumed sending media";
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
  screenShare: "screen sharing",
  screenShareAudio: "sharing the screen's audio",
};
