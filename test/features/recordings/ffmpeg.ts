import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Runs ffmpeg or ffprobe and answers what it printed; what it complains about is an error. */
export function media(program: "ffmpeg" | "ffprobe", ...parameters: string[]): string {
  const { exitCode, stdout, stderr } = Bun.spawnSync([program, "-v", "error", ...parameters]);
  const complaints = stderr.toString().trim();
  if (exitCode !== 0 || complaints !== "") throw new Error(`${program} ${parameters.join(" ")}: ${complaints}`);
  return stdout.toString();
}

/** A test video or a tone, encoded, as a file of the given ending. */
export function encoded(ending: string, seconds: number, ...encoder: string[]): Uint8Array {
  const folder = mkdtempSync(join(tmpdir(), "stoa-encoded-"));
  const file = join(folder, `source.${ending}`);
  const source = encoder.includes("-c:a")
    ? `sine=frequency=440:sample_rate=48000:duration=${seconds}`
    : `testsrc=size=320x240:rate=25:duration=${seconds}`;
  media("ffmpeg", "-f", "lavfi", "-i", source, ...encoder, file);
  const bytes = readFileSync(file);
  rmSync(folder, { recursive: true });
  return bytes;
}

/**
 * Decodes everything; whatever a decoder complains about is an error. Pictures of a call come when they come: put on a grid
 * of even steps, some would share a step, which says nothing about the file.
 */
export function decodeAll(path: string): void {
  media("ffmpeg", "-i", path, "-fps_mode", "passthrough", "-enc_time_base", "-1", "-f", "null", "-");
}

export type Probed = { codec: string; durationSeconds: number; frames: number; width: number; height: number };

/** Decodes the whole file, and fails for whatever a decoder complains about. */
export function probe(bytes: Uint8Array, ending: string): Probed {
  const folder = mkdtempSync(join(tmpdir(), "stoa-probe-"));
  const file = join(folder, `made.${ending}`);
  writeFileSync(file, bytes);
  try {
    decodeAll(file);
    const found = JSON.parse(media("ffprobe", "-show_streams", "-show_format", "-count_frames", "-of", "json", file));
    const [stream] = found.streams;
    return {
      codec: stream.codec_name,
      durationSeconds: Number(found.format.duration),
      frames: Number(stream.nb_read_frames),
      width: stream.width ?? 0,
      height: stream.height ?? 0,
    };
  } finally {
    rmSync(folder, { recursive: true });
  }
}
