import { Command, Option } from "commander";
import { ENVIRONMENTS } from "../../protocol/enums.ts";
import { addConfigOptions, configFrom } from "../config-options.ts";
import { print } from "../print.ts";
import { table } from "../table.ts";

export function keysCommand(argv: readonly string[]): Command {
  const create = new Command("create")
    .description("create an API key; it is shown only once")
    .option("--project <name-or-id>", "the project; may be left out when there is only one")
    .option("--create-project", "make the project first if there is none of that name")
    .option("--name <name>", "what the key is for", "command line")
    .addOption(new Option("--environment <environment>").choices(ENVIRONMENTS.map(lower)).default("development"))
    .option("--json", "print the key and its record as JSON")
    .action(async (options) => {
      const { config } = configFrom(options);
      const { operate } = await import("../data.ts");
      const record = await operate(config, "keys create", {
        project: options.project,
        createProject: options.createProject === true,
        name: options.name,
        environment: ENVIRONMENTS.find((name) => lower(name) === options.environment) ?? "DEVELOPMENT",
      });
      print(options.json ? JSON.stringify(record) : record.key);
    });

  const list = new Command("list")
    .description("list API keys, without their secrets")
    .option("--project <name-or-id>", "only those of this project")
    .option("--json", "as a JSON array")
    .action(async (options) => {
      const { config } = configFrom(options);
      const { operate } = await import("../data.ts");
      const keys = await operate(config, "keys list", { project: options.project });
      const rows = keys.map(({ publicId, name, environment, status, projectName, lastUsedAt }) => [
        publicId,
        projectName,
        lower(environment),
        lower(status),
        lastUsedAt ?? "never used",
        name,
      ]);
      print(
        options.json
          ? JSON.stringify(keys)
          : table(["KEY", "PROJECT", "ENVIRONMENT", "STATUS", "LAST USED", "NAME"], rows),
      );
    });

  const revoke = new Command("revoke")
    .description("revoke an API key; takes effect immediately, also on a running server")
    .argument("<key>", "its id or public id, as `keys list` shows it")
    .action(async (key: string, options) => {
      const { config } = configFrom(options);
      const { operate } = await import("../data.ts");
      const { publicId, revoked } = await operate(config, "keys revoke", { key });
      print(revoked ? `Revoked ${publicId}.` : `${publicId} was revoked already.`);
    });

  const secret = new Command("secret")
    .description("print the secret that signs tokens for LiveKit's SDKs")
    .argument("<key>", "its id or public id, as `keys list` shows it")
    .option("--json", "as JSON")
    .action(async (key: string, options) => {
      const { config } = configFrom(options);
      const { operate } = await import("../data.ts");
      const revealed = await operate(config, "keys secret", { key });
      print(
        options.json
          ? JSON.stringify(revealed)
          : `LIVEKIT_API_KEY=${revealed.apiKey}\nLIVEKIT_API_SECRET=${revealed.apiSecret}`,
      );
    });

  return new Command("keys")
    .description("manage API keys")
    .addCommand(addConfigOptions(create, argv, ["DATA_DIR"]))
    .addCommand(addConfigOptions(list, argv, ["DATA_DIR"]))
    .addCommand(addConfigOptions(revoke, argv, ["DATA_DIR"]))
    .addCommand(addConfigOptions(secret, argv, ["DATA_DIR"]));
}

const lower = (word: string) => word.toLowerCase();
