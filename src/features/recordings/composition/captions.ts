import { existsSync } from "node:fs";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { tileKeyOf } from "./stage.ts";

/**
 * The font and the texts of captions are files in the working directory of ffmpeg, so that its command needs no
 * escaping.
 */
export type Captions = { font: string; fileOf: ReadonlyMap<string, string> };

/** Common font files, for systems without fontconfig. */
const COMMON_FONTS = [
  "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
  "/usr/share/fonts/TTF/DejaVuSans.ttf",
  "/usr/share/fonts/dejavu/DejaVuSans.ttf",
  "/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf",
  "/usr/share/fonts/truetype/noto/NotoSans-Regular.ttf",
  "/System/Library/Fonts/Helvetica.ttc",
];
const MAX_CHARACTERS = 40;

/** Null when this machine has no font, or its ffmpeg cannot draw text. */
export async function findFont(ffmpeg: string): Promise<string | null> {
  const filters = await outputOf([ffmpeg, "-hide_banner", "-filters"]);
  if (!/\bdrawtext\b/.test(filters)) return null;
  const matcher = Bun.which("fc-match", { PATH: process.env.PATH ?? "" });
  const matched = matcher === null ? "" : await outputOf([matcher, "--format=%{file}", "sans"]);
  return [matched, ...COMMON_FONTS].find((path) => path !== "" && existsSync(path)) ?? null;
}

async function outputOf(command: string[]): Promise<string> {
  const child = Bun.spawn(command, { stdin: "ignore", stdout: "pipe", stderr: "ignore" });
  const text = await new Response(child.stdout).text();
  return (await child.exited) === 0 ? text : "";
}

type VideoFile = { identity: string; source: string };

/** `names` are the names for people to read, by identity. */
export async function writeCaptions(
  folder: string,
  font: string,
  files: readonly VideoFile[],
  names: ReadonlyMap<string, string>,
): Promise<Captions> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await symlink(font, join(folder, "font"));
  const fileOf = new Map<string, string>();
  for (const file of files) {
    const tile = tileKeyOf(file);
    if (fileOf.has(tile)) continue;
    const textFile = `name${fileOf.size}`;
    fileOf.set(tile, textFile);
    await writeFile(join(folder, textFile), captionOf(file, names.get(file.identity)), { mode: 0o600 });
  }
  return { font: "font", fileOf };
}

/** The caption as a single line that fits into a small tile. */
export function captionOf({ identity, source }: VideoFile, displayName = identity): string {
  const characters = [...displayName.toWellFormed().replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ")];
  const name =
    characters.length > MAX_CHARACTERS ? `${characters.slice(0, MAX_CHARACTERS - 1).join("")}…` : characters.join("");
  return source === "screenShare" ? `${name} · screen` : name;
}
