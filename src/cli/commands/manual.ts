import { Command } from "commander";
import { CommandFailure } from "../failure.ts";
import { print } from "../print.ts";

export function manualCommand(): Command {
  return new Command("manual")
    .description("read the guides in the terminal: list them, or print one, or a chapter")
    .argument("[guide]", "its name, or the heading of a chapter: rooms, firewall")
    .action(async (topic?: string) => {
      const { readGuides, sectionsOf } = await import("../manual/guides.ts");
      const guides = readGuides();
      if (topic === undefined) {
        const width = Math.max(...guides.map(({ name }) => name.length)) + 2;
        print(guides.map(({ name, summary }) => `${name.padEnd(width)}${firstSentence(summary)}`).join("\n"));
        return;
      }
      const guide = guides.find(({ name }) => name === topic);
      const chapter = guides.flatMap(sectionsOf).find(({ slug }) => slug === topic || slug.split("-").includes(topic));
      const found = guide ?? chapter;
      if (found === undefined) throw new CommandFailure(`the manual has no "${topic}"; \`stoa manual\` lists it`, true);
      print(found.text);
    });
}

const firstSentence = (text: string) => text.split(/(?<=\.) /)[0] ?? text;
