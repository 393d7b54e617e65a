import { longPage, type PageRequest, pageQueryUpTo } from "../../kernel/http/serving/pages.ts";
import type { RecordingRow } from "./recording.table.ts";
import type { Recordings } from "./recordings.ts";
import { TIMELINE_START, type TimelineRow } from "./timeline-entries.ts";

/** What one answer holds of a timeline; `link` leads to the rest. */
const ENTRIES = 1_000;
const BYTES = 2 * 1024 * 1024;
export const timelineQuery = pageQueryUpTo(ENTRIES);
export const TIMELINE_PAGE = "At most 1,000 entries and 2 MiB; `link` leads to the rest.";

/** One page of what happened while a recording ran. */
export const timelinePage = (
  recordings: Pick<Recordings, "timeline">,
  context: Parameters<typeof longPage>[0] & { query: PageRequest },
  row: RecordingRow,
  { texts }: { texts: boolean },
) =>
  longPage<TimelineRow, TimelineRow["entry"]>(context, context.query, {
    name: "timeline",
    shape: ["number", "number"],
    read: (after, limit) => {
      const [event = TIMELINE_START.event, message = TIMELINE_START.message] = (after ?? []) as [number?, number?];
      return recordings.timeline(row, texts, { event, message }, limit);
    },
    position: ({ position }) => [position.event, position.message],
    show: ({ entry }) => entry,
    defaultLimit: ENTRIES,
    maxBytes: BYTES,
  });
