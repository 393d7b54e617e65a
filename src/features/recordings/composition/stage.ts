/** The tile that is on the stage between two times. */
export type StageTime = { tile: string; fromMs: number; toMs: number };
export type SpeakersEvent = { atMs: number; speakers: readonly { identity: string; level: number }[] };
type VideoFile = { identity: string; source: string; offsetMs: number; durationMs: number };

/** The shortest time on the stage. It is longer in a long recording, to limit the length of the command line. */
const MIN_STAGE_MS = 2_000;
const MAX_CHANGES = 500;

/**
 * Prefers a shared screen, then the loudest speaker with video, then the tile that was on the stage before. A recording may have
 * ten thousand files and more moments than that, so no moment looks at all files.
 */
export function stageSchedule(
  files: readonly VideoFile[],
  events: readonly SpeakersEvent[],
  durationMs: number,
): StageTime[] {
  const minStageMs = Math.max(MIN_STAGE_MS, durationMs / MAX_CHANGES);
  const changes = files
    .filter((file) => file.durationMs > 0)
    .flatMap((file) => [
      { atMs: file.offsetMs, file, begins: true },
      { atMs: file.offsetMs + file.durationMs, file, begins: false },
    ])
    .sort((a, b) => a.atMs - b.atMs);
  const moments = [0, ...[...events, ...changes].map(({ atMs }) => atMs)].sort((a, b) => a - b);
  const schedule: StageTime[] = [];
  const visible = new VisibleTiles();
  let nextEvent = 0;
  let nextChange = 0;
  let loudest: string[] = [];
  for (const atMs of moments) {
    for (let event = events[nextEvent]; event && event.atMs <= atMs; event = events[nextEvent]) {
      loudest = [...event.speakers].sort((a, b) => b.level - a.level).map(({ identity }) => identity);
      nextEvent += 1;
    }
    for (let change = changes[nextChange]; change && change.atMs <= atMs; change = changes[nextChange]) {
      if (change.begins) visible.begin(change.file);
      else visible.end(change.file);
      nextChange += 1;
    }
    const current = schedule.at(-1);
    const tile = visible.choose(loudest, current?.tile);
    if (tile === undefined || atMs >= durationMs || tile === current?.tile) continue;
    if (current && visible.has(current.tile) && atMs - current.fromMs < minStageMs) continue;
    if (current) current.toMs = atMs;
    schedule.push({ tile, fromMs: atMs, toMs: durationMs });
  }
  return schedule;
}

/** The tiles that have video at a moment, in the order in which they became visible. */
class VisibleTiles {
  /** How many files of the tile have video now. */
  readonly #files = new Map<string, number>();
  readonly #screens = new Set<string>();
  readonly #byIdentity = new Map<string, Set<string>>();

  has(tile: string): boolean {
    return this.#files.has(tile);
  }

  begin(file: VideoFile): void {
    const tile = tileKeyOf(file);
    this.#files.set(tile, (this.#files.get(tile) ?? 0) + 1);
    if (file.source === "screenShare") this.#screens.add(tile);
    const own = this.#byIdentity.get(file.identity) ?? new Set();
    this.#byIdentity.set(file.identity, own.add(tile));
  }

  end(file: VideoFile): void {
    const tile = tileKeyOf(file);
    const left = (this.#files.get(tile) ?? 0) - 1;
    if (left > 0) {
      this.#files.set(tile, left);
      return;
    }
    this.#files.delete(tile);
    this.#screens.delete(tile);
    const own = this.#byIdentity.get(file.identity);
    own?.delete(tile);
    if (own?.size === 0) this.#byIdentity.delete(file.identity);
  }

  choose(loudest: readonly string[], current: string | undefined): string | undefined {
    const [screen] = this.#screens;
    if (screen !== undefined) return screen;
    for (const identity of loudest) {
      const [tile] = this.#byIdentity.get(identity) ?? [];
      if (tile !== undefined) return tile;
    }
    if (current !== undefined && this.has(current)) return current;
    const [first] = this.#files.keys();
    return first;
  }
}

/** The camera and the screen of a participant have separate tiles. */
export function tileKeyOf({ identity, source }: { identity: string; source: string }): string {
  return JSON.stringify([identity, source]);
}
