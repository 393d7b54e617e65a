import type { Quality } from "../../src/protocol/room-records.ts";

/** What the timeline of a call tells, as the API does. */
export type CallEntry = { atMs: number; type: string; identity?: string; [more: string]: unknown };
type Visit = { identity: string; joinedAt: string; leftAt: string | null };
type Span = { quality: Quality | null; from: number; until: number };

export type MarkKind = "joined" | "left" | "shared" | "trouble" | "error" | "message";
type Mark = { at: number; kind: MarkKind; entries: { entry: CallEntry; index: number }[] };
export type CallLane = { identity: string; spans: Span[]; marks: Mark[] };

const KINDS: Record<string, MarkKind> = {
  "participant.joined": "joined",
  "participant.left": "left",
  "track.published": "shared",
  "track.unpublished": "shared",
  reconnecting: "trouble",
  reconnected: "trouble",
  "media.stalled": "trouble",
  "media.flows": "trouble",
  "encoder.limited": "trouble",
  error: "error",
  message: "message",
};

/** Undefined for what is shown as colour instead. */
export const kindOf = ({ type }: CallEntry): MarkKind | undefined => KINDS[type];

/** Who said it: somebody who was in the call, or somebody who only wrote. */
export const OTHERS = "In chat alone";

/** Marks nearer to each other than this share of the call could not be told apart. */
const NEAR = 0.025;
/** Of marks that stand together, the one that must not be overlooked gives its shape to all. */
const WEIGHT: MarkKind[] = ["message", "shared", "left", "joined", "trouble", "error"];

/** One lane for each person, in the order in which they came; times in milliseconds from the start. */
export function lanesOf(startedAt: string, durationMs: number, visits: Visit[], entries: CallEntry[]): CallLane[] {
  const start = Date.parse(startedAt);
  const lanes = new Map<string, CallLane>();
  for (const { identity, joinedAt, leftAt } of visits) {
    const lane = lanes.get(identity) ?? { identity, spans: [], marks: [] };
    lanes.set(identity, lane);
    const from = Date.parse(joinedAt) - start;
    const until = leftAt === null ? durationMs : Date.parse(leftAt) - start;
    lane.spans.push(...spansOf(identity, from, Math.max(from, until), entries));
  }
  for (const [index, entry] of entries.entries()) {
    const kind = kindOf(entry);
    if (!kind) continue;
    const who = kind === "message" ? String(entry.senderId) : (entry.identity ?? "");
    const identity = lanes.has(who) ? who : OTHERS;
    const lane = lanes.get(identity) ?? { identity, spans: [], marks: [] };
    lanes.set(identity, lane);
    const last = lane.marks.at(-1);
    if (last && entry.atMs - last.at < durationMs * NEAR) {
      last.entries.push({ entry, index });
      if (WEIGHT.indexOf(kind) > WEIGHT.indexOf(last.kind)) last.kind = kind;
    } else lane.marks.push({ at: entry.atMs, kind, entries: [{ entry, index }] });
  }
  return [...lanes.values()];
}

/** How it was for one person, from one change to the next; unknown until something was measured. */
function spansOf(identity: string, from: number, until: number, entries: CallEntry[]): Span[] {
  const spans: Span[] = [{ quality: null, from, until }];
  for (const { type, identity: whose, atMs, quality } of entries) {
    if (type !== "quality.changed" || whose !== identity || atMs < from || atMs > until) continue;
    const last = spans.at(-1);
    if (last) last.until = atMs;
    spans.push({ quality: quality as Quality, from: atMs, until });
  }
  return spans.filter((span) => span.until > span.from);
}
