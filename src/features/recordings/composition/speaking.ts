/** Who is on the stage, and when. */
export type Shown = { place: string; fromMs: number; toMs: number };
export type SpeakersEvent = { atMs: number; speakers: readonly { identity: string; level: number }[] };
type Film = { identity: string; source: string; offsetMs: number; durationMs: number };

/** Nobody is cut off sooner; longer in a long recording, so that the command stays as long as a system takes. */
const LEAST_MS = 2_000;
const MOST_CHANGES = 500;

/** A screen while one is shown, else whoever speaks loudest and is seen, else whoever was seen last. */
export function shownWhen(films: readonly Film[], events: readonly SpeakersEvent[], durationMs: number): Shown[] {
  const least = Math.max(LEAST_MS, durationMs / MOST_CHANGES);
  const moments = [
    ...events.map(({ atMs }) => atMs),
    ...films.flatMap(({ offsetMs, durationMs: length }) => [offsetMs, offsetMs + length]),
  ];
  const shown: Shown[] = [];
  let next = 0;
  let loudest: string[] = [];
  for (const atMs of [0, ...moments].sort((a, b) => a - b)) {
    for (let event = events[next]; event && event.atMs <= atMs; event = events[next]) {
      loudest = [...event.speakers].sort((a, b) => b.level - a.level).map(({ identity }) => identity);
      next += 1;
    }
    const seen = films.filter(({ offsetMs, durationMs: length }) => offsetMs <= atMs && atMs < offsetMs + length);
    const current = shown.at(-1);
    const film =
      seen.find(({ source }) => source === "screenShare") ??
      seen.filter(({ identity }) => loudest.includes(identity)).sort((a, b) => byLoudness(loudest, a, b))[0] ??
      seen.find((one) => placeOf(one) === current?.place) ??
      seen[0];
    if (!film || atMs >= durationMs) continue;
    const place = placeOf(film);
    if (current?.place === place) continue;
    const stays = seen.some((one) => placeOf(one) === current?.place);
    if (current && stays && atMs - current.fromMs < least) continue;
    if (current) current.toMs = atMs;
    shown.push({ place, fromMs: atMs, toMs: durationMs });
  }
  return shown;
}

function byLoudness(loudest: readonly string[], a: Film, b: Film): number {
  return loudest.indexOf(a.identity) - loudest.indexOf(b.identity);
}

/** A person's camera and screen have a place each. */
export function placeOf({ identity, source }: { identity: string; source: string }): string {
  return JSON.stringify([identity, source]);
}
