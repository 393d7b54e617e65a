import { signal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import type { Player } from "./player.ts";
import { clockText, type Entry, type NameOf, speakingIntervals } from "./replay.ts";

/** The hue differs by this many degrees from one speaker to the next, so that neighbours are easy to tell apart. */
const HUE_STEP = 137;
const RATES = [0.5, 1, 1.25, 1.5, 2];
/** Beyond these, colours are too alike to be told apart. */
const MAX_SPEAKERS_NAMED = 12;
const isFullScreen = signal(false);
addEventListener("fullscreenchange", () => {
  isFullScreen.value = document.fullscreenElement !== null;
});

/** The whole page goes full screen, with the time bar and the chat. */
export function toggleFullScreen(): void {
  if (document.fullscreenElement) void document.exitFullscreen();
  else void document.documentElement.requestFullscreen();
}

/** What the colours of the marks mean. */
const LEGEND: Record<string, string> = {
  "participant.joined": "Joined",
  "participant.left": "Left",
  "quality.changed": "Quality changed",
  message: "Message",
};
/** The text of a mark on the bar, by the entry's type. */
const MARKS: Record<string, (entry: Entry, name: string) => string> = {
  "participant.joined": (_, name) => `${name} joined`,
  "participant.left": (_, name) => `${name} left`,
  "quality.changed": ({ quality }, name) => `${name}: quality ${quality}`,
  message: (_, name) => `${name} wrote`,
};

type TimeBarProps = { player: Player; timeline: readonly Entry[]; nameOf: NameOf };

export function TimeBar({ player, timeline, nameOf }: TimeBarProps) {
  const { durationMs } = player;
  const marks = timeline.filter(
    ({ type, quality }) => type in MARKS && (type !== "quality.changed" || quality !== "excellent"),
  );
  const intervals = useMemo(() => speakingIntervals(timeline, durationMs), [timeline, durationMs]);
  const speakers = [...new Set(intervals.map(({ identity }) => identity))];
  const colourOf = (identity: string) => `hsl(${(speakers.indexOf(identity) * HUE_STEP) % 360} 60% 50%)`;
  const percent = (ms: number) => `${durationMs > 0 ? (ms / durationMs) * 100 : 0}%`;
  return (
    <section class="bar" aria-label="Time">
      <div class="marks" aria-hidden="true">
        {marks.slice(0, 500).map((entry) => (
          <i
            key={`${entry.atMs} ${entry.type} ${entry.identity ?? entry.messageId}`}
            class={entry.type.replace(".", "-")}
            title={`${clockText(entry.atMs)} ${MARKS[entry.type]?.(entry, nameOf(entry.identity ?? entry.senderId ?? "System")) ?? ""}`}
            style={{ left: percent(entry.atMs) }}
          />
        ))}
      </div>
      <div class="speakers" aria-hidden="true">
        {intervals.map(({ identity, fromMs, toMs }) => (
          <i
            key={fromMs}
            title={`${clockText(fromMs)} ${nameOf(identity)} speaks`}
            style={{
              left: percent(fromMs),
              width: percent(toMs - fromMs),
              background: colourOf(identity),
            }}
          />
        ))}
      </div>
      <input
        type="range"
        class="position"
        min="0"
        max={Math.max(1, durationMs)}
        step="100"
        value={player.positionMs.value}
        aria-label="Position"
        aria-valuetext={`${clockText(player.positionMs.value)} of ${clockText(durationMs)}`}
        onInput={({ currentTarget }) => player.seek(currentTarget.valueAsNumber)}
      />
      <div class="controls">
        <button type="button" class="primary" onClick={() => player.toggle()}>
          {player.playing.value ? "Pause" : "Play"}
        </button>
        <span class="time" role="timer">
          {clockText(player.positionMs.value)} / {clockText(durationMs)}
        </span>
        <span class="quiet" role="status">
          {player.waiting.value ? "Loading …" : ""}
        </span>
        <label>
          Speed
          <select onChange={({ currentTarget }) => player.setRate(Number(currentTarget.value))}>
            {RATES.map((rate) => (
              <option key={rate} value={rate} selected={rate === 1}>
                {rate} ×
              </option>
            ))}
          </select>
        </label>
        {document.fullscreenEnabled && (
          <button type="button" aria-keyshortcuts="f" onClick={toggleFullScreen}>
            {isFullScreen.value ? "Exit full screen" : "Full screen"}
          </button>
        )}
      </div>
      <ul class="legend" aria-label="Legend">
        {Object.entries(LEGEND)
          .filter(([type]) => marks.some((mark) => mark.type === type))
          .map(([type, text]) => (
            <li key={type}>
              <i class={type.replace(".", "-")} aria-hidden="true" /> {text}
            </li>
          ))}
        {speakers.slice(0, MAX_SPEAKERS_NAMED).map((identity) => (
          <li key={identity}>
            <i class="speaker" style={{ background: colourOf(identity) }} aria-hidden="true" /> {nameOf(identity)}{" "}
            speaks
          </li>
        ))}
      </ul>
    </section>
  );
}
