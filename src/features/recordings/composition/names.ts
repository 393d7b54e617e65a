import { existsSync } from "node:fs";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { placeOf } from "./speaking.ts";

/** What names are written with: files of a folder in which ffmpeg runs, so that nothing has to be escaped in its command. */
export type Names = { font: string; fileOf: ReadonlyMap<string, string> };

/** Where they lie on systems without fontconfig. */
const USUAL_FONTS = [
  "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
  "/usr/share/fonts/TTF/DejaVuSans.ttf",
  "/usr/share/fonts/dejavu/DejaVuSans.ttf",
  "/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf",
  "/usr/share/fonts/truetype/noto/NotoSans-Regular.ttf",
  "/System/Library/Fonts/Helvetica.ttc",
];
const MOST_CHARACTERS = 40;

/** A font of this machine that an ffmpeg can write with; null when there is none, or the ffmpeg was made without. */
export async function findFont(ffmpeg: string): Promise<string | null> {
  const filters = await outputOf([ffmpeg, "-hide_banner", "-filters"]);
  if (!/\bdrawtext\b/.test(filters)) return null;
  const matcher = Bun.which("fc-match", { PATH: process.env.PATH ?? "" });
  const matched = matcher === null ? "" : await outputOf([matcher, "--format=%{file}", "sans"]);
  return [matched, ...USUAL_FONTS].find((path) => path !== "" && existsSync(path)) ?? null;
}

async function outputOf(command: string[]): Promise<string> {
  const child = Bun.spawn(command, { stdin: "ignore", stdout: "pipe", stderr: "ignore" });
  const text = await new Response(child.stdout).text();
  return (await child.exited) === 0 ? text : "";
}

type Film = { identity: string; source: string };

/** Lays font and names into the folder. */
export async function writeNames(folder: string, font: string, films: readonly Film[]): Promise<Names> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await symlink(font, join(folder, "font"));
  const fileOf = new Map<string, string>();
  for (const film of films) {
    const place = placeOf(film);
    if (fileOf.has(place)) continue;
    const file = `name${fileOf.size}`;
    fileOf.set(place, file);
    await writeFile(join(folder, file), shownName(film), { mode: 0o600 });
  }
  return { font: "font", fileOf };
}

/** One line that fits into a small picture. */
export function shownName({ identity, source }: Film): string {
  const letters = [...identity.toWellFormed().replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ")];
  const name =
    letters.length > MOST_CHARACTERS ? `${letters.slice(0, MOST_CHARACTERS - 1).join("")}…` : letters.join("");
  return source === "screenShare" ? `${name} · screen` : name;
}
