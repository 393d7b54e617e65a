import { signal, useComputed } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Player, Track } from "./player.ts";
import { type Entry, type NameOf, participantsAt, speakersAt } from "./replay.ts";

type Layout = "grid" | "speaker";
const layout = signal<Layout>("grid");
/** The last speaker stays large during silence. */
const large = signal<string | null>(null);

type StageProps = { player: Player; timeline: readonly Entry[]; nameOf: NameOf };

export function Stage({ player, timeline, nameOf }: StageProps) {
  const identities = [...new Set(player.tracks.map(({ file }) => file.identity))];
  const people = useComputed(() => participantsAt(timeline, identities, player.positionMs.value).join("\n"));
  const speakers = useComputed(() => speakersAt(timeline, player.positionMs.value).join("\n"));
  const speaking = speakers.value.split("\n");
  const present = people.value.split("\n").filter(Boolean);
  if (speaking[0]) large.value = speaking[0];
  const focus = layout.value === "speaker" ? (large.value ?? present[0]) : undefined;
  return (
    <section class={`stage ${layout.value}`} aria-label="People">
      <button
        type="button"
        class="layout"
        aria-pressed={layout.value === "speaker"}
        onClick={() => {
          layout.value = layout.value === "grid" ? "speaker" : "grid";
        }}
      >
        {layout.value === "grid" ? "Speaker view" : "Grid view"}
      </button>
      {present.length === 0 && <p class="nobody">No participant is in the call at this point.</p>}
      <ul>
        {identities.map((identity) => (
          <Person
            key={identity}
            {...{ identity, player }}
            name={nameOf(identity)}
            tracks={player.tracks.filter(({ file }) => file.identity === identity)}
            isAbsent={!present.includes(identity)}
            isSpeaking={speaking.includes(identity)}
            isLarge={identity === focus}
          />
        ))}
      </ul>
    </section>
  );
}

type PersonProps = {
  identity: string;
  name: string;
  player: Player;
  tracks: readonly Track[];
  isAbsent: boolean;
  isSpeaking: boolean;
  isLarge: boolean;
};

function Person({ identity, name, player, tracks, isAbsent, isSpeaking, isLarge }: PersonProps) {
  const videos = tracks.filter(({ file }) => file.kind === "video" && player.present.value.has(file.id));
  // A shared screen takes precedence over the camera.
  const shown = videos.find(({ file }) => file.source === "screenShare") ?? videos[0];
  const classes = ["person", isSpeaking ? "speaking" : "", isLarge ? "large" : ""].filter(Boolean).join(" ");
  return (
    <li class={classes} hidden={isAbsent}>
      {shown ? <TrackVideo track={shown} /> : <span class="initial">{name.slice(0, 1).toUpperCase()}</span>}
      <footer>
        <span>{name}</span>
        <input
          type="range"
          min="0"
          max="1"
          step="0.05"
          defaultValue="1"
          aria-label={`Volume of ${name}`}
          onInput={({ currentTarget }) => player.setVolume(identity, currentTarget.valueAsNumber)}
        />
      </footer>
    </li>
  );
}

/** Inserts the player's own element, which keeps its buffer across renders. */
function TrackVideo({ track: { element } }: { track: Track }) {
  const container = useRef<HTMLDivElement>(null);
  useEffect(() => {
    container.current?.replaceChildren(element);
  }, [element]);
  return <div class="video" ref={container} />;
}
