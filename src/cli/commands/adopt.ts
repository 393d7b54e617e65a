import { existsSync, writeFileSync } from "node:fs";
import { Command, Option } from "commander";
import { ENVIRONMENTS } from "../../protocol/enums.ts";
import { addConfigOptions, configFrom } from "../config-options.ts";
import { CommandFailure } from "../failure.ts";
import { print } from "../print.ts";
import { table } from "../table.ts";

export function adoptCommand(argv: readonly string[]): Command {
  const adopt = new Command("adopt")
    .description("take over the configuration, the keys and the webhooks of a LiveKit server")
    .argument("<livekit.yaml>", "LiveKit's configuration file")
    .option("--explain", "say what every setting becomes, and change nothing")
    .option("--output <file>", "write our configuration there; an existing file is kept", "stoa.toml")
    .option("--project <name-or-id>", "the project of the keys; may be left out when there is only one")
    .option("--create-project", "make the project first if there is none of that name")
    .addOption(new Option("--environment <environment>").choices(ENVIRONMENTS.map(lower)).default("production"))
    .action(async (file: string, options) => {
      const { readLivekitConfig } = await import("../adopt/read-livekit.ts");
      const { lines, settings, keys, webhook } = readLivekitConfig(file);
      print(
        table(
          ["LINE", "SETTING", "BECOMES"],
          lines.map(({ line, path, text }) => [line === 0 ? "" : String(line), path, text]),
        ),
      );
      if (webhook && !keys.some(({ apiKey }) => apiKey === webhook.apiKey)) {
        throw new CommandFailure(`webhook.api_key is ${webhook.apiKey}, which is not among the keys.`);
      }
      if (options.explain) return;
      const { config } = configFrom(options);
      if (existsSync(options.output)) {
        throw new CommandFailure(`${options.output} exists. Name another file with --output, or move it away.`);
      }
      const { operate } = await import("../data.ts");
      const { keys: imported, urls } = await operate(config, "livekit adopt", {
        project: options.project,
        createProject: options.createProject === true,
        keys,
        webhook,
        environment: ENVIRONMENTS.find((name) => lower(name) === options.environment) ?? "PRODUCTION",
      });
      const text = Object.entries(settings).map(([name, value]) => `${name} = ${JSON.stringify(value)}\n`);
      writeFileSync(options.output, text.join(""), { mode: 0o600, flag: "wx" });
      print("");
      for (const { publicId, isNew } of imported) {
        print(isNew ? `Imported the key ${publicId}.` : `The key ${publicId} was imported already.`);
      }
      for (const url of urls) print(`Webhooks go to ${url}.`);
      print(`Wrote ${options.output}. Start the server with \`stoa serve --config ${options.output}\`.`);
    });
  return addConfigOptions(adopt, argv, ["DATA_DIR"]);
}

const lower = (word: string) => word.toLowerCase();
