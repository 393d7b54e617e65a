/** The names of participants as bitmaps, drawn once by ffmpeg. */
import { spawn } from "node:child_process";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Frame } from "./canvas.ts";
import { QUIET } from "./ffmpeg-pipe.ts";

const MAX_CHARACTERS = 40;
const MAX_LABELS = 500;
const MARGIN = 8;
/** Brighter than the label's background. */
const TEXT_LUMA = 60;

export class Labels {
  readonly #ffmpeg: string;
  readonly #font: string | null;
  readonly #height: number;
  readonly #known = new Map<string, Frame | null>();

  /** `height` is the height of the composition. */
  constructor(ffmpeg: string, font: string | null, height: number) {
    this.#ffmpeg = ffmpeg;
    this.#font = font;
    this.#height = 4 * Math.max(4, Math.round(height / 120));
  }

  /** Null while the label is being drawn, and without a font. */
  of(name: string): Frame | null {
    const known = this.#known.get(name);
    if (known !== undefined || this.#font === null) return known ?? null;
    // A participant who changes names again and again must not push out the names of others.
    for (const oldest of this.#known.keys()) {
      if (this.#known.size < MAX_LABELS) break;
      this.#known.delete(oldest);
    }
    this.#known.set(name, null);
    this.#draw(this.#font, name).then(
      (label) => this.#known.set(name, label),
      () => {},
    );
    return null;
  }

  /** The name is in a file, so that ffmpeg's command needs no escaping. */
  async #draw(font: string, name: string): Promise<Frame | null> {
    const height = this.#height;
    const text = [...name.replaceAll(/\p{Cc}+/gu, " ")].slice(0, MAX_CHARACTERS).join("");
    const width = 2 * Math.ceil(([...text].length * height * 0.8 + 2 * MARGIN) / 2);
    const path = join(tmpdir(), `stoa-label-${crypto.randomUUID()}`);
    await Bun.write(path, text);
    try {
      const size = Math.round(height * 0.65);
      const look = `fontsize=${size}:fontcolor=white:x=${MARGIN}:y=(h-${size})/2`;
      const filter = `drawtext=fontfile=${escaped(font)}:textfile=${escaped(path)}:expansion=none:${look}`;
      const source = ["-f", "lavfi", "-i", `color=c=0x101010:s=${width}x${height}`, "-frames:v", "1"];
      const data = await outputOf(this.#ffmpeg, [
        ...[...QUIET, ...source, "-vf", `${filter},format=gray`],
        ...["-f", "rawvideo", "pipe:1"],
      ]);
      return data.length === width * height ? trimmed({ width, height, data }) : null;
    } finally {
      await rm(path, { force: true });
    }
  }
}

const escaped = (path: string): string => path.replaceAll(/[\\:',[\];]/g, "\\$&");

/** Removes the empty columns behind the text. */
function trimmed({ width, height, data }: Frame): Frame {
  let last = 0;
  for (let i = 0; i < data.length; i++) if ((data[i] as number) > TEXT_LUMA) last = Math.max(last, i % width);
  const kept = Math.min(width, 2 * Math.ceil((last + MARGIN) / 2));
  const out = new Uint8Array(kept * height);
  for (let row = 0; row < height; row++) out.set(data.subarray(row * width, row * width + kept), row * kept);
  return { width: kept, height, data: out };
}

function outputOf(program: string, parameters: readonly string[]): Promise<Uint8Array> {
  const child = spawn(program, parameters, { stdio: ["ignore", "pipe", "ignore"] });
  const parts: Buffer[] = [];
  child.stdout.on("data", (bytes: Buffer) => parts.push(bytes));
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", () => resolve(Buffer.concat(parts)));
  });
}
