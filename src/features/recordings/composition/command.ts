import type { RecordingFileRow } from "../recording.table.ts";
import { gridOf, type Rectangle, stripBelow } from "./layout.ts";
import type { Names } from "./names.ts";
import { placeOf, type Shown, type SpeakersEvent, shownWhen } from "./speaking.ts";

export type Layout = "grid" | "speaker";

export type Composition = {
  layout: Layout;
  width: number;
  height: number;
  durationMs: number;
  files: readonly (Pick<RecordingFileRow, "kind" | "source" | "codec" | "identity" | "offsetMs" | "durationMs"> & {
    path: string;
  })[];
  speakers: readonly SpeakersEvent[];
  /** Null: nobody's name is written. */
  names: Names | null;
  output: string;
};

const FRAMES_PER_SECOND = 25;
const SAMPLES_PER_SECOND = 48_000;

const seconds = (ms: number): string => (ms / 1_000).toFixed(3);
const even = (value: number): number => value - (value % 2);

/**
 * What ffmpeg is told to make one film of all files: each laid at its offset on a black canvas as long as the recording,
 * sound mixed from all. Its progress goes to its output.
 */
export function compositionCommand(composition: Composition): string[] {
  const { durationMs, files, output } = composition;
  const graph: string[] = [];
  const picture = pictureOf(composition, graph);
  const sound = soundOf(composition, graph);
  return [
    ...["-hide_banner", "-nostdin", "-loglevel", "error", "-nostats", "-progress", "pipe:1", "-y"],
    // A publisher's picture changes its size in the middle of a file: rebuilt for it, the whole graph would begin anew.
    ...files.flatMap((file) => [...(file.kind === "video" ? ["-reinit_filter", "0"] : []), ...inputOf(file)]),
    ...["-filter_complex", graph.join(";"), "-map", `[${picture}]`],
    ...(sound === null ? [] : ["-map", `[${sound}]`, "-c:a", "aac", "-b:a", "128k"]),
    ...["-c:v", "libx264", "-preset", "veryfast", "-crf", "23", "-pix_fmt", "yuv420p"],
    ...["-t", seconds(durationMs), "-movflags", "+faststart", "-f", "mp4", output],
  ];
}

/** ffmpeg neither guesses the format from the file's content nor opens anything that the content names. */
function inputOf({ path, codec }: Composition["files"][number]): string[] {
  return ["-protocol_whitelist", "file", "-f", codec === "h264" ? "mp4" : "matroska", "-i", path];
}

/** Adds to the graph, and answers the name of what comes out. */
function pictureOf({ layout, files, durationMs, speakers, names, ...size }: Composition, graph: string[]): string {
  const width = even(size.width);
  const height = even(size.height);
  const canvas = `color=black:size=${width}x${height}:rate=${FRAMES_PER_SECOND}:duration=${seconds(durationMs)}`;
  graph.push(`${canvas}[canvas]`);
  const films = files.map((file, input) => ({ ...file, input })).filter(({ kind }) => kind === "video");
  // Who comes back has another file, and the same place.
  const places = [...new Set(films.map(placeOf))];
  let last = "canvas";
  const lay = (input: string, name: string, at: Rectangle, offsetMs: number, when?: readonly Shown[]): void => {
    const fitted = `scale=${at.width}:${at.height}:force_original_aspect_ratio=decrease:force_divisible_by=2`;
    graph.push(`[${input}]setpts=PTS+${seconds(offsetMs)}/TB,${fitted},setsar=1[${name}]`);
    const enabled = when === undefined ? "" : `:enable='${during(when)}'`;
    const [x, y] = [`${at.x}+(${at.width}-w)/2`, `${at.y}+(${at.height}-h)/2`];
    graph.push(`[${last}][${name}]overlay=x=${x}:y=${y}:eof_action=pass${enabled}[on_${name}]`);
    last = `on_${name}`;
  };
  /** On top of everything, in the corner of a place, for as long as somebody is seen there. */
  const sign = (place: string, name: string, at: Rectangle, when: readonly Shown[]): void => {
    const file = names?.fileOf.get(place);
    if (!names || file === undefined || when.length === 0) return;
    const letters = Math.max(8, Math.min(Math.round(height / 36), Math.round(at.height / 7)));
    const margin = Math.round(letters / 2);
    const [x, y] = [at.x + margin * 2, `${at.y + at.height - margin * 2}-th`];
    const look = `fontsize=${letters}:fontcolor=white:box=1:boxcolor=black@0.5:boxborderw=${margin}`;
    const text = `drawtext=fontfile=${names.font}:textfile=${file}:expansion=none:${look}:x=${x}:y=${y}`;
    graph.push(`[${last}]${text}:enable='${during(when)}'[named_${name}]`);
    last = `named_${name}`;
  };
  const seenAt = (place: string): Shown[] =>
    films
      .filter((film) => placeOf(film) === place)
      .map(({ offsetMs, durationMs: length }) => ({ place, fromMs: offsetMs, toMs: offsetMs + length }));

  if (layout === "grid" || places.length < 2) {
    const cells = gridOf(places.length, width, height);
    for (const film of films) {
      const cell = cells[places.indexOf(placeOf(film))];
      if (cell) lay(`${film.input}:v`, `film${film.input}`, cell, film.offsetMs);
    }
    for (const [index, cell] of cells.entries()) {
      const place = places[index] ?? "";
      sign(place, `film${index}`, cell, seenAt(place));
    }
    return last;
  }

  const { stage, cells } = stripBelow(places.length, width, height);
  const shown = shownWhen(films, speakers, durationMs);
  for (const film of films) {
    const { input, offsetMs } = film;
    const cell = cells[places.indexOf(placeOf(film))];
    const when = shown.filter(({ place }) => place === placeOf(film));
    if (cell && when.length === 0) lay(`${input}:v`, `small${input}`, cell, offsetMs);
    if (!cell || when.length === 0) continue;
    graph.push(`[${input}:v]split[a${input}][b${input}]`);
    lay(`a${input}`, `small${input}`, cell, offsetMs);
    lay(`b${input}`, `large${input}`, stage, offsetMs, when);
  }
  for (const [index, place] of places.entries()) {
    const cell = cells[index];
    if (cell) sign(place, `small${index}`, cell, seenAt(place));
    const onStage = shown.filter((one) => one.place === place);
    sign(place, `large${index}`, stage, onStage);
  }
  return last;
}

const during = (when: readonly Shown[]): string =>
  when.map(({ fromMs, toMs }) => `gte(t,${seconds(fromMs)})*lt(t,${seconds(toMs)})`).join("+");

/** Null when nobody was heard. */
function soundOf({ files, durationMs }: Composition, graph: string[]): string | null {
  const names: string[] = [];
  for (const [input, { kind, offsetMs }] of files.entries()) {
    if (kind !== "audio") continue;
    // Mute is a gap in the file: silence keeps its time.
    const filled = `aresample=${SAMPLES_PER_SECOND}:async=1:first_pts=0`;
    // Who was there already was heard before the first picture: what comes from before the start is cut off.
    const placed = offsetMs < 0 ? `atrim=start=${seconds(-offsetMs)},asetpts=PTS-STARTPTS` : `adelay=${offsetMs}:all=1`;
    graph.push(`[${input}:a]${filled},${placed}[sound${input}]`);
    names.push(`[sound${input}]`);
  }
  if (names.length === 0) return null;
  const mixed = `amix=inputs=${names.length}:duration=longest:normalize=0,alimiter=limit=0.95`;
  graph.push(`${names.join("")}${mixed},apad=whole_dur=${seconds(durationMs)}[sound]`);
  return "sound";
}
