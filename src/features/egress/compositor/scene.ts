/** Which tracks a composition shows, and where. Independent of ffmpeg and of time. */
import type { TrackKind, TrackSource } from "../../../protocol/room-records.ts";
import { gridOf, type Rectangle, stageOf } from "../../recordings/composition/layout.ts";

export const LAYOUTS = ["grid", "speaker", "single-speaker"] as const;
export type Layout = (typeof LAYOUTS)[number];

export type SceneTrack = {
  trackId: string;
  identity: string;
  /** The name for people to read. */
  name: string;
  kind: TrackKind;
  source: TrackSource;
  muted: boolean;
};

/** A participant without video has a tile that shows only the name. */
export type Tile = { identity: string; name: string; trackId: string | null; rectangle: Rectangle };

/** More tiles would be too small to see, and each takes a decoder. */
export const MAX_TILES = 25;
/** The number of tiles in the row below the stage. */
const MAX_ROW = 6;

type Candidate = Omit<Tile, "rectangle"> & { isScreen: boolean };

export type Stage = { width: number; height: number };

/** `previous` is the participant on the stage until now, who stays until a participant with video speaks. */
export function tilesOf(
  tracks: readonly SceneTrack[],
  speakers: readonly string[],
  layout: Layout,
  { width, height }: Stage,
  previous: string | null,
): Tile[] {
  const candidates = candidatesOf(tracks);
  if (layout === "grid" && !candidates.some(({ isScreen }) => isScreen)) {
    const shown = candidates.slice(0, MAX_TILES);
    return placed(shown, gridOf(shown.length, width, height));
  }
  const main = onStage(candidates, speakers, previous);
  if (!main) return [];
  if (layout === "single-speaker") return placed([main], [{ x: 0, y: 0, width, height }]);
  const others = candidates.filter((one) => one !== main).slice(0, MAX_ROW);
  if (others.length === 0) return placed([main], [{ x: 0, y: 0, width, height }]);
  const { stage, cells } = stageOf(others.length, width, height);
  return placed([main, ...others], [stage, ...cells]);
}

/** Screens first, and participants with video before those without. */
function candidatesOf(tracks: readonly SceneTrack[]): Candidate[] {
  const visible = tracks.filter(({ kind, muted }) => kind === "video" && !muted);
  const tiles = visible.map(({ identity, name, trackId, source }) => ({
    identity,
    name,
    trackId,
    isScreen: source === "screenShare",
  }));
  const shown = new Set(tiles.filter(({ isScreen }) => !isScreen).map(({ identity }) => identity));
  for (const { identity, name } of tracks) {
    if (shown.has(identity)) continue;
    shown.add(identity);
    tiles.push({ identity, name, trackId: null as never, isScreen: false });
  }
  return tiles.sort((a, b) => Number(b.isScreen) - Number(a.isScreen));
}

/** Prefers a shared screen, then the loudest speaker with video, then the participant who was on the stage before. */
function onStage(
  candidates: readonly Candidate[],
  speakers: readonly string[],
  previous: string | null,
): Candidate | undefined {
  const screen = candidates.find(({ isScreen }) => isScreen);
  if (screen) return screen;
  const withVideo = candidates.filter(({ trackId }) => trackId !== null);
  const choice = withVideo.length > 0 ? withVideo : candidates;
  for (const speaker of speakers) {
    const found = choice.find(({ identity }) => identity === speaker);
    if (found) return found;
  }
  return choice.find(({ identity }) => identity === previous) ?? choice[0];
}

function placed(candidates: readonly Candidate[], rectangles: readonly Rectangle[]): Tile[] {
  return candidates.flatMap(({ identity, name, trackId }, index) => {
    const rectangle = rectangles[index];
    return rectangle ? [{ identity, name, trackId, rectangle }] : [];
  });
}

const even = (value: number): number => Math.max(2, 2 * Math.round(value / 2));

/** The largest rectangle with the proportions of `shape` in the middle of another one. */
export function fitted(shape: Stage, { x, y, width, height }: Rectangle): Rectangle {
  const scale = Math.min(width / shape.width, height / shape.height);
  const inner = {
    width: Math.min(width, even(shape.width * scale)),
    height: Math.min(height, even(shape.height * scale)),
  };
  const middle = (outer: number, size: number) => 2 * Math.floor((outer - size) / 4);
  return { ...inner, x: x + middle(width, inner.width), y: y + middle(height, inner.height) };
}
