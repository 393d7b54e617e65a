/** The tile that is on the stage between two times. */
export type StageTime = { tile: string; fromMs: number; toMs: number };
export type SpeakersEvent = { atMs: number; speakers: readonly { identity: string; level: number }[] };
type VideoFile = { identity: string; source: string; offsetMs: number; durationMs: number };

/** The shortest time on the stage. It is longer in a long recording, to limit the length of the command line. */
const MIN_STAGE_MS = 2_000;
const MAX_CHANGES = 500;

/** Prefers a shared screen, then the loudest speaker with video, then the tile that was on the stage before. */
export function stageSchedule(
  files: readonly VideoFile[],
  events: readonly SpeakersEvent[],
  durationMs: number,
): StageTime[] {
  const minStageMs = Math.max(MIN_STAGE_MS, durationMs / MAX_CHANGES);
  const moments = [
    ...events.map(({ atMs }) => atMs),
    ...files.flatMap(({ offsetMs, durationMs: length }) => [offsetMs, offsetMs + length]),
  ];
  const schedule: StageTime[] = [];
  let next = 0;
  let loudest: string[] = [];
  for (const atMs of [0, ...moments].sort((a, b) => a - b)) {
    for (let event = events[next]; event && event.atMs <= atMs; event = events[next]) {
      loudest = [...event.speakers].sort((a, b) => b.level - a.level).map(({ identity }) => identity);
      next += 1;
    }
    const visible = files.filter(({ offsetMs, durationMs: length }) => offsetMs <= atMs && atMs < offsetMs + length);
    const current = schedule.at(-1);
    const file =
      visible.find(({ source }) => source === "screenShare") ??
      visible.filter(({ identity }) => loudest.includes(identity)).sort((a, b) => byLoudness(loudest, a, b))[0] ??
      visible.find((one) => tileKeyOf(one) === current?.tile) ??
      visible[0];
    if (!file || atMs >= durationMs) continue;
    const tile = tileKeyOf(file);
    if (current?.tile === tile) continue;
    const stays = visible.some((one) => tileKeyOf(one) === current?.tile);
    if (current && stays && atMs - current.fromMs < minStageMs) continue;
    if (current) current.toMs = atMs;
    schedule.push({ tile, fromMs: atMs, toMs: durationMs });
  }
  return schedule;
}

function byLoudness(loudest: readonly string[], a: VideoFile, b: VideoFile): number {
  return loudest.indexOf(a.identity) - loudest.indexOf(b.identity);
}

/** The camera and the screen of a participant have separate tiles. */
export function tileKeyOf({ identity, source }: { identity: string; source: string }): string {
  return JSON.stringify([identity, source]);
}
