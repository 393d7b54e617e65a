import type { Quality } from "../../src/protocol/room-records.ts";

/** An entry of a call's timeline. */
export type CallEntry = { atMs: number; type: string; identity?: string; [more: string]: unknown };
type Participation = { identity: string; joinedAt: string; leftAt: string | null };
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
  "keys.missing": "trouble",
  error: "error",
  message: "message",
};

/** The kind of mark of an entry; undefined for quality changes, which are shown as colour. */
export const kindOf = ({ type }: CallEntry): MarkKind | undefined => KINDS[type];

/** The lane of senders who only used the chat. */
export const CHAT_ONLY = "Chat only";

/** Marks that are closer together than this fraction of the call are merged. */
const CLUSTER_FRACTION = 0.025;
/** Merged marks have the kind of the most severe one, which comes last here. */
const SEVERITY_ORDER: MarkKind[] = ["message", "shared", "left", "joined", "trouble", "error"];

/** One lane per participant, in the order of joining; times are in milliseconds from the start. */
export function lanesOf(
  startedAt: string,
  durationMs: number,
  participations: Participation[],
  entries: CallEntry[],
): CallLane[] {
  const start = Date.parse(startedAt);
  const lanes = new Map<string, CallLane>();
  for (const { identity, joinedAt, leftAt } of participations) {
    const lane = lanes.get(identity) ?? { identity, spans: [], marks: [] };
    lanes.set(identity, lane);
    const from = Date.parse(joinedAt) - start;
    const until = leftAt === null ? durationMs : Date.parse(leftAt) - start;
    lane.spans.push(...spansOf(identity, from, Math.max(from, until), entries));
  }
  for (const [index, entry] of entries.entries()) {
    const kind = kindOf(entry);
    if (!kind) continue;
    const author = kind === "message" ? String(entry.senderId) : (entry.identity ?? "");
    const identity = lanes.has(author) ? author : CHAT_ONLY;
    const lane = lanes.get(identity) ?? { identity, spans: [], marks: [] };
    lanes.set(identity, lane);
    const last = lane.marks.at(-1);
    if (last && entry.atMs - last.at < durationMs * CLUSTER_FRACTION) {
      last.entries.push({ entry, index });
      if (SEVERITY_ORDER.indexOf(kind) > SEVERITY_ORDER.indexOf(last.kind)) last.kind = kind;
    } else lane.marks.push({ at: entry.atMs, kind, entries: [{ entry, index }] });
  }
  return [...lanes.values()];
}

/** A participant's quality over time; unknown until the first measurement. */
function spansOf(identity: string, from: number, until: number, entries: CallEntry[]): Span[] {
  const spans: Span[] = [{ quality: null, from, until }];
  for (const { type, identity: changedIdentity, atMs, quality } of entries) {
    if (type !== "quality.changed" || changedIdentity !== identity || atMs < from || atMs > until) continue;
    const last = spans.at(-1);
    if (last) last.until = atMs;
    spans.push({ quality: quality as Quality, from: atMs, until });
  }
  return spans.filter((span) => span.until > span.from);
}
