/** The guides of `web/docs`, for `stoa manual` and the pages at `/docs`. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { assetFolder } from "../../kernel/assets.ts";
import { expandGenerated } from "./generated.ts";

export type Guide = { name: string; title: string; summary: string; text: string };

/** The order of the guides. Unlisted guides follow by name. */
const ORDER = [
  "start",
  "rooms",
  "chat",
  "ringing",
  "moderation",
  "push",
  "live-streams",
  "webhooks",
  "calls",
  "recordings",
  "livekit",
  "livekit-migration",
  "people",
  "sdk",
  "embed",
  "encryption",
  "rtc-socket",
  "chat-socket",
  "operate",
  "upgrade",
  "containers",
  "sizing",
  "troubleshooting",
  "one-port",
  "standby",
  "configuration",
  "security",
  "figures",
];

export function readGuides(folder = assetFolder("web/docs")): Guide[] {
  const rank = (name: string) => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length);
  return readdirSync(folder)
    .filter((file) => file.endsWith(".md"))
    .map((file) => file.slice(0, -".md".length))
    .sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1))
    .map((name) => guideOf(name, readFileSync(join(folder, `${name}.md`), "utf8")));
}

function guideOf(name: string, source: string): Guide {
  const text = expandGenerated(source)
    .replace(/^<!-- .*? -->\n/gm, "")
    .trimEnd();
  const title = /^# (.+)$/m.exec(text)?.[1];
  if (title === undefined) throw new Error(`the guide ${name} has no title`);
  const [, summary = ""] = text.split(/\n\n/);
  return { name, title, summary: summary.replaceAll("\n", " "), text };
}

type Section = { heading: string; slug: string; text: string };

/** The chapters of a guide. Lines in code blocks are not headings. */
export function sectionsOf({ text }: Guide): Section[] {
  const starts: number[] = [];
  let inCode = false;
  const lines = text.split("\n");
  for (const [at, line] of lines.entries()) {
    if (line.startsWith("```")) inCode = !inCode;
    if (!inCode && line.startsWith("## ")) starts.push(at);
  }
  return starts.map((from, index) => {
    const heading = (lines[from] ?? "").slice("## ".length);
    return {
      heading,
      slug: slugOf(heading),
      text: lines
        .slice(from, starts[index + 1])
        .join("\n")
        .trimEnd(),
    };
  });
}

/** The anchor of a heading in the form that GitHub uses. */
export function slugOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");
}
