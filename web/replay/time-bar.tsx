import type { Player } from "./player.ts";
import { clockText, type Entry } from "./replay.ts";

const RATES = [0.5, 1, 1.25, 1.5, 2];
/** What a mark on the bar says, by the type of the entry. */
const MARKS: Record<string, (entry: Entry) => string> = {
  "participant.joined": ({ identity }) => `${identity} joined`,
  "participant.left": ({ identity }) => `${identity} left`,
  "quality.changed": ({ identity, quality }) => `${identity}: quality ${quality}`,
  message: ({ senderId }) => `${senderId ?? "The server"} wrote`,
};

export function TimeBar({ player, timeline }: { player: Player; timeline: readonly Entry[] }) {
  const { durationMs } = player;
  const marks = timeline.filter(
    ({ type, quality }) => type in MARKS && (type !== "quality.changed" || quality !== "excellent"),
  );
  return (
    <section class="bar" aria-label="Time">
      <div class="marks" aria-hidden="true">
        {marks.slice(0, 500).map((entry) => (
          <i
            key={`${entry.atMs} ${entry.type} ${entry.identity ?? entry.messageId}`}
            class={entry.type.replace(".", "-")}
            title={`${clockText(entry.atMs)} ${MARKS[entry.type]?.(entry) ?? ""}`}
            style={{ left: `${durationMs > 0 ? (entry.atMs / durationMs) * 100 : 0}%` }}
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
      </div>
    </section>
  );
}
