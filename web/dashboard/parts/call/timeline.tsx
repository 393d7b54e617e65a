import { clustersOf, type Lane, laneOf, type StoryEvent, segmentsOf, spanOf, type Told } from "../../story.ts";
import { words } from "../states.tsx";
import { durationText } from "../time.tsx";
import { Mark, TimeAxis } from "./marks.tsx";

const LANES: Lane[] = ["Connection", "Network", "Tracks", "Quality", "Errors"];

/** A connection from left to right: its states as a band, what happened as marks below, each in its lane. */
export function Timeline({ told }: { told: Told }) {
  const now = Date.now();
  const { from, until } = spanOf(told, now);
  const place = (at: number) => `${((at - from) / (until - from)) * 100}%`;
  const segments = segmentsOf(told, now);
  const lanes = LANES.map((lane) => ({ lane, clusters: clustersOf(told, lane, now) }));
  return (
    <figure class="card timeline">
      <div class="band" role="img" aria-label={spoken(told, now)}>
        {segments.map((segment) => (
          <span
            key={segment.from}
            class={segment.state}
            style={{ left: place(segment.from), width: `calc(${place(segment.until)} - ${place(segment.from)})` }}
            title={`${words(segment.state)} for ${durationText(segment.until - segment.from)}`}
          />
        ))}
      </div>
      {lanes
        .filter(({ clusters }) => clusters.length > 0)
        .map(({ lane, clusters }) => (
          <div key={lane} class="lane">
            <span class="quiet small">{lane}</span>
            <div>
              {clusters.map(({ at, events }) => {
                const told = events.map(({ event }) => `${words(event.type)}, ${offset(event, from)}`);
                return <Mark key={at} kind={lane} href={`#event-${events[0]?.index}`} left={place(at)} told={told} />;
              })}
            </div>
          </div>
        ))}
      <TimeAxis spanMs={until - from} />
    </figure>
  );
}

/** The same in words, one after the other. */
export function Story({ told }: { told: Told }) {
  const { from } = spanOf(told, Date.now());
  return (
    <ol class="story">
      {told.events.map((event, index) => (
        <li key={index} id={`event-${index}`} class={laneOf(event.type)}>
          <span class="quiet mono small">{offset(event, from)}</span>
          <span>
            <b>{words(event.type)}</b> <span class="quiet small">reported by the {event.source}</span>
            {event.data && <span class="small mono data">{dataText(event.data)}</span>}
          </span>
        </li>
      ))}
    </ol>
  );
}

function spoken(told: Told, now: number): string {
  const parts = segmentsOf(told, now).map(
    ({ state, from, until }) => `${words(state)} for ${durationText(until - from)}`,
  );
  return parts.join(", then ");
}

function offset({ timestamp }: StoryEvent, from: number): string {
  return `+${durationText(Date.parse(timestamp) - from)}`;
}

function dataText(data: Record<string, unknown>): string {
  return Object.entries(data)
    .map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : String(value)}`)
    .join(" · ");
}
