/** The code blocks of the guides and the README, with the comments that name their tests. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expandGenerated } from "../../../src/cli/manual/generated.ts";

export const ROOT = join(import.meta.dir, "../../..");
const DOCS = join(ROOT, "web/docs");

export type Block = {
  guide: string;
  line: number;
  language: string;
  /** The rest of the fence's line after the language. */
  info: string;
  code: string;
  /** The file name and the test, from a comment above the fence. */
  file?: string;
  testedBy?: string;
};

export const GUIDES = [
  ...readdirSync(DOCS)
    .filter((file) => file.endsWith(".md"))
    .map((file) => join("web/docs", file)),
  "README.md",
];

export function blocksOf(guide: string): Block[] {
  const text = expandGenerated(readFileSync(join(ROOT, guide), "utf8"));
  const fences = /((?:^<!-- .* -->\n)*)^```(\w*) ?(.*)\n([\s\S]*?)^```$/gm;
  return [...text.matchAll(fences)].map(({ 1: comments = "", 2: language = "", 3: info = "", 4: code = "", index }) => {
    const line = text.slice(0, index).split("\n").length;
    const file = /file: ([\w.-]+)/.exec(comments)?.[1];
    const testedBy = /tested: ([^;]+?)(?:;| -->)/.exec(comments)?.[1];
    return {
      guide,
      line,
      language,
      info,
      code,
      ...(file === undefined ? {} : { file }),
      ...(testedBy === undefined ? {} : { testedBy }),
    };
  });
}

export function blockFor(guide: string, file: string): string {
  const block = blocksOf(guide).find((one) => one.file === file);
  if (block === undefined) throw new Error(`${guide} shows no ${file}`);
  return block.code;
}

/** Whether another test runs the block; throws if that test does not exist. */
export function hasOwnTest({ testedBy }: Block): boolean {
  if (testedBy === undefined) return false;
  if (testedBy.startsWith("by its syntax")) return true;
  if (!existsSync(join(ROOT, testedBy))) throw new Error(`there is no ${testedBy}`);
  return true;
}
