import type { Recording } from "../../src/protocol/recordings.ts";

/** An entry of the timeline; the optional fields depend on its type. */
export type Entry = {
  atMs: number;
  type: string;
  identity?: string;
  messageId?: string;
  senderId?: string | null;
  text?: string;
  speakers?: { identity: string; level: number }[];
  quality?: string;
};

export type Replay = {
  recording: Recording;
  /** Names for people to read, by identity. */
  names: Record<string, string>;
  timeline: Entry[];
  downloads: { fileId: string; url: string }[];
};

/** Loads the recording of the link. The token is in the hash, so browsers send it to no server by themselves. */
export async function readReplay(hash: string): Promise<Replay> {
  const token = new URLSearchParams(hash.slice(1)).get("token");
  if (!token) throw new Error("This link is incomplete: its token is missing. Ask for the link again.");
  const timeline: Entry[] = [];
  for (let path = `/v1/replays/${encodeURIComponent(token)}`; ; ) {
    const response = await fetch(path);
    const body = await response.json();
    if (!response.ok) throw new Error(body.message ?? "The recording could not be loaded.");
    timeline.push(...(body as Replay).timeline);
    const next = nextOf(response.headers.get("link"));
    if (next === null) return { ...(body as Replay), timeline };
    path = next;
  }
}

/** What to call a participant: the name, or else the identity. */
export type NameOf = (identity: string) => string;

/** The path of the timeline's next page. */
function nextOf(link: string | null): string | null {
  return /<([^>]+)>; rel="next"/.exec(link ?? "")?.[1] ?? null;
}

/** The active speakers at the position, loudest first. */
export function speakersAt(timeline: readonly Entry[], positionMs: number): string[] {
  const entry = timeline.findLast(({ type, atMs }) => type === "speakers.changed" && atMs <= positionMs);
  return (entry?.speakers ?? []).map(({ identity }) => identity);
}

/** The resolution of the speaker bar. */
const CELLS = 500;

export type SpeakingInterval = { identity: string; fromMs: number; toMs: number };

/**
 * The intervals in which each participant spoke; while several speak, only the loudest counts. The shortest interval is
 * one cell wide.
 */
export function speakingIntervals(timeline: readonly Entry[], durationMs: number): SpeakingInterval[] {
  const cells: (string | undefined)[] = [];
  const cellMs = durationMs / CELLS;
  const changes = timeline.filter(({ type }) => type === "speakers.changed");
  for (const [i, { atMs, speakers }] of changes.entries()) {
    const loudest = speakers?.[0]?.identity;
    const untilMs = Math.min(durationMs, changes[i + 1]?.atMs ?? durationMs);
    if (loudest === undefined || untilMs <= atMs) continue;
    for (let cell = Math.max(0, Math.floor(atMs / cellMs)); cell * cellMs < untilMs; cell++) cells[cell] = loudest;
  }
  const found: SpeakingInterval[] = [];
  for (let cell = 0; cell < cells.length; cell++) {
    const identity = cells[cell];
    const last = found.at(-1);
    const [fromMs, toMs] = [cell * cellMs, (cell + 1) * cellMs];
    if (identity !== undefined && last?.identity === identity && cells[cell - 1] === identity) last.toMs = toMs;
    else if (identity !== undefined) found.push({ identity, fromMs, toMs });
  }
  return found;
}

/** The participants in the call at the position, in the order in which they joined. */
export function participantsAt(
  timeline: readonly Entry[],
  identities: readonly string[],
  positionMs: number,
): string[] {
  const moves = timeline.filter(({ type }) => type === "participant.joined" || type === "participant.left");
  // A participant who was there before the recording began has no join entry before the leave entry.
  const before = identities.filter(
    (name) => moves.find(({ identity }) => identity === name)?.type !== "participant.joined",
  );
  const present = new Set(before);
  for (const { type, identity, atMs } of moves) {
    if (identity === undefined || atMs > positionMs) continue;
    if (type === "participant.joined") present.add(identity);
    else present.delete(identity);
  }
  return [...present];
}

export function clockText(ms: number): string {
  const seconds = Math.floor(ms / 1_000);
  const two = (value: number) => String(value).padStart(2, "0");
  const hours = Math.floor(seconds / 3_600);
  const rest = `${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
  return hours > 0 ? `${hours}:${rest}` : rest;
}
