import { Command } from "commander";
import { CommandFailure } from "../failure.ts";

export function manualCommand(): Command {
  return new Command("manual")
    .description("the guides of /docs in the terminal: lists them, or prints one, or one chapter of one")
    .argument("[guide]", "its name, or the heading of a chapter: rooms, firewall")
    .action(async (asked?: string) => {
      const { readGuides, sectionsOf } = await import("../manual/guides.ts");
      const guides = readGuides();
      if (asked === undefined) {
        const width = Math.max(...guides.map(({ name }) => name.length)) + 2;
        console.log(guides.map(({ name, summary }) => `${name.padEnd(width)}${firstSentence(summary)}`).join("\n"));
        return;
      }
      const guide = guides.find(({ name }) => name === asked);
      const chapter = guides.flatMap(sectionsOf).find(({ slug }) => slug === asked || slug.split("-").includes(asked));
      const found = guide ?? chapter;
      if (found === undefined) throw new CommandFailure(`the manual has no "${asked}"; \`stoa manual\` lists it`, true);
      console.log(found.text);
    });
}

const firstSentence = (text: string) => text.split(/(?<=\.) /)[0] ?? text;
