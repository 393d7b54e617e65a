import { Argument, Command } from "commander";
import { CommandFailure } from "../failure.ts";

/** Of the README's part for operators: the word on the command line, and the heading it stands for. */
const CHAPTERS: Record<string, string> = {
  vps: "A VPS in five minutes",
  firewall: "Firewall",
  proxy: "TLS and proxies",
  backup: "Backup and restore",
  upgrade: "Upgrade",
  sizing: "Sizing",
  troubleshooting: "Troubleshooting",
};

export function manualCommand(): Command {
  return new Command("manual")
    .description("how to operate it: a VPS, firewall, proxy, backup, upgrade, sizing, troubleshooting")
    .addArgument(new Argument("[chapter]", "one of them; all without").choices(Object.keys(CHAPTERS)))
    .action(async (chapter?: string) => {
      const { default: readme } = await import("../../../README.md", { with: { type: "text" } });
      console.log(
        chapter === undefined ? section(readme, "## Operate it") : section(readme, `### ${CHAPTERS[chapter]}`),
      );
    });
}

/** From the heading to the next one of its level, without the marks that are for programs. */
function section(readme: string, heading: string): string {
  const [level = ""] = heading.split(" ");
  const lines = readme.split("\n");
  const from = lines.indexOf(heading);
  if (from < 0) throw new CommandFailure(`the manual has no "${heading}"`);
  const length = lines.slice(from + 1).findIndex((line) => /^#+ /.test(line) && line.indexOf(" ") <= level.length);
  const shown = length < 0 ? lines.slice(from) : lines.slice(from, from + 1 + length);
  return shown
    .filter((line) => !/^<!-- .* -->$/.test(line))
    .join("\n")
    .trimEnd();
}
