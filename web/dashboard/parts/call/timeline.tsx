import {
  type ConnectionTimeline,
  clustersOf,
  type Lane,
  laneOf,
  segmentsOf,
  spanOf,
  type TimelineEvent,
} from "../../connection-timeline.ts";
import { humanize } from "../states.tsx";
import { durationText } from "../time.tsx";
import { Mark, TimeAxis } from "./marks.tsx";

const LANES: Lane[] = ["Connection", "Network", "Tracks", "Quality", "Errors"];

/** A connection's timeline: its states as a band, its events as marks in lanes below. */
export function Timeline({ timeline }: { timeline: ConnectionTimeline }) {
  const now = Date.now();
  const { from, until } = spanOf(timeline, now);
  const position = (at: number) => `${((at - from) / (until - from)) * 100}%`;
  const segments = segmentsOf(timeline, now);
  const lanes = LANES.map((lane) => ({ lane, clusters: clustersOf(timeline, lane, now) }));
  return (
    <figure class="card timeline">
      <div class="band" role="img" aria-label={statesText(timeline, now)}>
        {segments.map((segment) => (
          <span
            key={segment.from}
            class={segment.state}
            style={{
              left: position(segment.from),
              width: `calc(${position(segment.until)} - ${position(segment.from)})`,
            }}
            title={`${humanize(segment.state)} for ${durationText(segment.until - segment.from)}`}
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
                const texts = events.map(({ event }) => `${humanize(event.type)}, ${offset(event, from)}`);
                return (
                  <Mark key={at} kind={lane} href={`#event-${events[0]?.index}`} left={position(at)} texts={texts} />
                );
              })}
            </div>
          </div>
        ))}
      <TimeAxis spanMs={until - from} />
    </figure>
  );
}

/** The events as a list. */
export function EventList({ timeline }: { timeline: ConnectionTimeline }) {
  const { from } = spanOf(timeline, Date.now());
  return (
    <ol class="story">
      {timeline.events.map((event, index) => (
        <li key={index} id={`event-${index}`} class={laneOf(event.type)}>
          <span class="quiet mono small">{offset(event, from)}</span>
          <span>
            <b>{humanize(event.type)}</b> <span class="quiet small">reported by the {event.source}</span>
            {event.data && <span class="small mono data">{dataText(event.data)}</span>}
          </span>
        </li>
      ))}
    </ol>
  );
}

function statesText(timeline: ConnectionTimeline, now: number): string {
  const parts = segmentsOf(timeline, now).map(
    ({ state, from, until }) => `${humanize(state)} for ${durationText(until - from)}`,
  );
  return parts.join(", then ");
}

function offset({ timestamp }: TimelineEvent, from: number): string {
  return `+${durationText(Date.parse(timestamp) - from)}`;
}

function dataText(data: Record<string, unknown>): string {
  return Object.entries(data)
    .map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : String(value)}`)
    .join(" · ");
}
