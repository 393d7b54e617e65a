import { signal, useComputed } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Player, Track } from "./player.ts";
import { type Entry, peopleAt, speakersAt } from "./replay.ts";

type Layout = "grid" | "speaker";
const layout = signal<Layout>("grid");
/** The last who spoke stays large while nobody does. */
const large = signal<string | null>(null);

export function Stage({ player, timeline }: { player: Player; timeline: readonly Entry[] }) {
  const identities = [...new Set(player.tracks.map(({ file }) => file.identity))];
  const people = useComputed(() => peopleAt(timeline, identities, player.positionMs.value).join("\n"));
  const speakers = useComputed(() => speakersAt(timeline, player.positionMs.value).join("\n"));
  const speaking = speakers.value.split("\n");
  const there = people.value.split("\n").filter(Boolean);
  if (speaking[0]) large.value = speaking[0];
  const focus = layout.value === "speaker" ? (large.value ?? there[0]) : undefined;
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
        {layout.value === "grid" ? "Show who speaks" : "Show everybody"}
      </button>
      <ul>
        {identities.map((identity) => (
          <Person
            key={identity}
            {...{ identity, player }}
            tracks={player.tracks.filter(({ file }) => file.identity === identity)}
            gone={!there.includes(identity)}
            speaks={speaking.includes(identity)}
            isLarge={identity === focus}
          />
        ))}
      </ul>
    </section>
  );
}

type PersonProps = {
  identity: string;
  player: Player;
  tracks: readonly Track[];
  gone: boolean;
  speaks: boolean;
  isLarge: boolean;
};

function Person({ identity, player, tracks, gone, speaks, isLarge }: PersonProps) {
  const pictures = tracks.filter(({ file }) => file.kind === "video" && player.present.value.has(file.id));
  // A shared screen before the camera.
  const shown = pictures.find(({ file }) => file.source === "screenShare") ?? pictures[0];
  const classes = ["person", speaks ? "speaks" : "", isLarge ? "large" : ""].filter(Boolean).join(" ");
  return (
    <li class={classes} hidden={gone}>
      {shown ? <Picture track={shown} /> : <span class="initial">{identity.slice(0, 1).toUpperCase()}</span>}
      <footer>
        <span>{identity}</span>
        <input
          type="range"
          min="0"
          max="1"
          step="0.05"
          defaultValue="1"
          aria-label={`Volume of ${identity}`}
          onInput={({ currentTarget }) => player.setVolume(identity, currentTarget.valueAsNumber)}
        />
      </footer>
    </li>
  );
}

/** The element belongs to the player and is only lent to the page. */
function Picture({ track: { element } }: { track: Track }) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    place.current?.replaceChildren(element);
  }, [element]);
  return <div class="picture" ref={place} />;
}
