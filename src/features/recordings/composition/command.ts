import type { RecordingFileRow } from "../recording.table.ts";
import type { Captions } from "./captions.ts";
import { BOUNDED_FRAMES } from "./ffmpeg.ts";
import { gridOf, type Rectangle, stageOf } from "./layout.ts";
import { type SpeakersEvent, type StageTime, stageSchedule, tileKeyOf } from "./stage.ts";

type Composition = {
  layout: "grid" | "speaker";
  width: number;
  height: number;
  durationMs: number;
  files: readonly (Pick<RecordingFileRow, "kind" | "source" | "codec" | "identity" | "offsetMs" | "durationMs"> & {
    path: string;
  })[];
  speakers: readonly SpeakersEvent[];
  captions: Captions | null;
  output: string;
};

const FRAMES_PER_SECOND = 25;
const SAMPLES_PER_SECOND = 48_000;
/** By default ffmpeg ignores gaps of up to 100 ms, and lets the drift of a microphone grow to that before it corrects it. */
const SOUND_TOLERANCE_SECONDS = 0.01;

const seconds = (ms: number): string => (ms / 1_000).toFixed(3);
const even = (value: number): number => value - (value % 2);

/**
 * The ffmpeg command that composes one video from all files: each file is overlaid at its offset on a black canvas as
 * long as the recording, and all audio is mixed. ffmpeg writes its progress to standard output.
 */
export function compositionCommand(composition: Composition): string[] {
  const { durationMs, files, output } = composition;
  const graph: string[] = [];
  const video = videoOf(composition, graph);
  const audio = audioOf(composition, graph);
  return [
    ...["-hide_banner", "-nostdin", "-loglevel", "error", "-nostats", "-progress", "pipe:1", "-y"],
    // A publisher's video changes its size within a file; without this option the whole graph would restart.
    ...files.flatMap((file) => [...(file.kind === "video" ? ["-reinit_filter", "0"] : []), ...inputOf(file)]),
    ...["-filter_complex", graph.join(";"), "-map", `[${video}]`],
    ...(audio === null ? [] : ["-map", `[${audio}]`, "-c:a", "aac", "-b:a", "128k"]),
    ...["-c:v", "libx264", "-preset", "veryfast", "-crf", "23", "-pix_fmt", "yuv420p"],
    ...["-t", seconds(durationMs), "-movflags", "+faststart", "-f", "mp4", output],
  ];
}

/** ffmpeg neither guesses the format from the file's content nor opens anything that the content names. */
function inputOf({ path, codec }: Composition["files"][number]): string[] {
  return ["-protocol_whitelist", "file", ...BOUNDED_FRAMES, "-f", codec === "h264" ? "mp4" : "matroska", "-i", path];
}

/** Adds the video filters to the graph and returns the name of their output. */
function videoOf({ layout, files, durationMs, speakers, captions, ...size }: Composition, graph: string[]): string {
  const width = even(size.width);
  const height = even(size.height);
  const canvas = `color=black:size=${width}x${height}:rate=${FRAMES_PER_SECOND}:duration=${seconds(durationMs)}`;
  graph.push(`${canvas}[canvas]`);
  const videos = files.map((file, input) => ({ ...file, input })).filter(({ kind }) => kind === "video");
  // A participant who rejoins has another file in the same tile.
  const tiles = [...new Set(videos.map(tileKeyOf))];
  let last = "canvas";
  const overlay = (input: string, name: string, at: Rectangle, offsetMs: number, when?: readonly StageTime[]): void => {
    const fitted = `scale=${at.width}:${at.height}:force_original_aspect_ratio=decrease:force_divisible_by=2`;
    graph.push(`[${input}]setpts=PTS+${seconds(offsetMs)}/TB,${fitted},setsar=1[${name}]`);
    const enabled = when === undefined ? "" : `:enable='${during(when)}'`;
    const [x, y] = [`${at.x}+(${at.width}-w)/2`, `${at.y}+(${at.height}-h)/2`];
    graph.push(`[${last}][${name}]overlay=x=${x}:y=${y}:eof_action=pass${enabled}[on_${name}]`);
    last = `on_${name}`;
  };
  /** Draws the caption in the corner of a tile while the tile has video. */
  const drawCaption = (tile: string, name: string, at: Rectangle, when: readonly StageTime[]): void => {
    const file = captions?.fileOf.get(tile);
    if (!captions || file === undefined || when.length === 0) return;
    const fontSize = Math.max(8, Math.min(Math.round(height / 36), Math.round(at.height / 7)));
    const margin = Math.round(fontSize / 2);
    const [x, y] = [at.x + margin * 2, `${at.y + at.height - margin * 2}-th`];
    const style = `fontsize=${fontSize}:fontcolor=white:box=1:boxcolor=black@0.5:boxborderw=${margin}`;
    const text = `drawtext=fontfile=${captions.font}:textfile=${file}:expansion=none:${style}:x=${x}:y=${y}`;
    graph.push(`[${last}]${text}:enable='${during(when)}'[named_${name}]`);
    last = `named_${name}`;
  };
  const filesOf = Map.groupBy(videos, tileKeyOf);
  const visibleTimes = (tile: string): StageTime[] =>
    (filesOf.get(tile) ?? []).map(({ offsetMs, durationMs: length }) => ({
      tile,
      fromMs: offsetMs,
      toMs: offsetMs + length,
    }));
  const placeOf = new Map(tiles.map((tile, index) => [tile, index]));

  if (layout === "grid" || tiles.length < 2) {
    const cells = gridOf(tiles.length, width, height);
    for (const video of videos) {
      const cell = cells[placeOf.get(tileKeyOf(video)) ?? -1];
      if (cell) overlay(`${video.input}:v`, `film${video.input}`, cell, video.offsetMs);
    }
    for (const [index, cell] of cells.entries()) {
      const tile = tiles[index] ?? "";
      drawCaption(tile, `film${index}`, cell, visibleTimes(tile));
    }
    return last;
  }

  const { stage, cells } = stageOf(tiles.length, width, height);
  const timesOf = Map.groupBy(stageSchedule(videos, speakers, durationMs), ({ tile }) => tile);
  for (const video of videos) {
    const { input, offsetMs } = video;
    const cell = cells[placeOf.get(tileKeyOf(video)) ?? -1];
    const when = timesOf.get(tileKeyOf(video)) ?? [];
    if (cell && when.length === 0) overlay(`${input}:v`, `small${input}`, cell, offsetMs);
    if (!cell || when.length === 0) continue;
    graph.push(`[${input}:v]split[a${input}][b${input}]`);
    overlay(`a${input}`, `small${input}`, cell, offsetMs);
    overlay(`b${input}`, `large${input}`, stage, offsetMs, when);
  }
  for (const [index, tile] of tiles.entries()) {
    const cell = cells[index];
    if (cell) drawCaption(tile, `small${index}`, cell, visibleTimes(tile));
    drawCaption(tile, `large${index}`, stage, timesOf.get(tile) ?? []);
  }
  return last;
}

const during = (when: readonly StageTime[]): string =>
  when.map(({ fromMs, toMs }) => `gte(t,${seconds(fromMs)})*lt(t,${seconds(toMs)})`).join("+");

/** Null when there is no audio. */
function audioOf({ files, durationMs }: Composition, graph: string[]): string | null {
  const names: string[] = [];
  for (const [input, { kind, offsetMs }] of files.entries()) {
    if (kind !== "audio") continue;
    // A muted track has a gap in its file, which is filled with silence.
    const resampled = `aresample=${SAMPLES_PER_SECOND}:async=1:min_hard_comp=${SOUND_TOLERANCE_SECONDS}:first_pts=0`;
    // Audio before the start of the recording is cut off.
    const delayed =
      offsetMs < 0 ? `atrim=start=${seconds(-offsetMs)},asetpts=PTS-STARTPTS` : `adelay=${offsetMs}:all=1`;
    graph.push(`[${input}:a]${resampled},${delayed}[sound${input}]`);
    names.push(`[sound${input}]`);
  }
  if (names.length === 0) return null;
  const mixed = `amix=inputs=${names.length}:duration=longest:normalize=0,alimiter=limit=0.95`;
  graph.push(`${names.join("")}${mixed},apad=whole_dur=${seconds(durationMs)}[sound]`);
  return "sound";
}
