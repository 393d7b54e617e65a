/** Prints the flashes or beeps of one file as JSON: `read-file.ts path video|audio offsetMs`. */
import { decodeAll, media } from "../../features/recordings/ffmpeg.ts";
import { beeps, flashes } from "../../features/recordings/flash-and-beep.ts";

/** `moments`: of its flashes or beeps, in milliseconds of the recording. */
export type Reading = { moments: number[]; lastsMs: number } | { complaint: string };

const MAX_COMPLAINT = 300;

function read(path: string, kind: string, offsetMs: number): Reading {
  try {
    decodeAll(path);
    const lastsMs = 1_000 * Number(media("ffprobe", "-show_entries", "format=duration", "-of", "csv=p=0", path));
    return { moments: kind === "video" ? flashes(path, offsetMs) : beeps(path, offsetMs), lastsMs };
  } catch (error) {
    return { complaint: (error as Error).message.slice(0, MAX_COMPLAINT) };
  }
}

const [path = "", kind = "", offsetMs = ""] = process.argv.slice(2);
console.log(JSON.stringify(read(path, kind, Number(offsetMs))));
