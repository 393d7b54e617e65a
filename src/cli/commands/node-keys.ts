import { Command } from "commander";
import { addConfigOptions, configFrom } from "../config-options.ts";
import { print } from "../print.ts";
import { table } from "../table.ts";

export function nodeKeysCommand(argv: readonly string[]): Command {
  const create = new Command("create")
    .description("create a secret for one media node; it is shown only once")
    .argument("<name>", "the node's name, its SFU_NODE_NAME")
    .option("--json", "print the secret and its record as JSON")
    .action(async (name: string, options) => {
      const { config } = configFrom(options);
      const { operate } = await import("../data.ts");
      const created = await operate(config, "node-keys create", { name });
      print(options.json ? JSON.stringify(created) : created.secret);
    });

  const list = new Command("list")
    .description("list the keys of media nodes, without their secrets")
    .option("--json", "as a JSON array")
    .action(async (options) => {
      const { config } = configFrom(options);
      const { operate } = await import("../data.ts");
      const keys = await operate(config, "node-keys list", {});
      const rows = keys.map(({ publicId, name, status, lastUsedAt }) => [
        ...[publicId, name, status.toLowerCase(), lastUsedAt ?? "never used"],
      ]);
      print(options.json ? JSON.stringify(keys) : table(["KEY", "NODE", "STATUS", "LAST USED"], rows));
    });

  const revoke = new Command("revoke")
    .description("revoke the secret of a media node; the server disconnects the node within seconds")
    .argument("<key>", "as `node-keys list` shows it")
    .action(async (key: string, options) => {
      const { config } = configFrom(options);
      const { operate } = await import("../data.ts");
      const { revoked } = await operate(config, "node-keys revoke", { key });
      print(revoked ? `Revoked ${key}.` : `${key} was revoked already.`);
    });

  return new Command("node-keys")
    .description("manage the secrets of media nodes")
    .addCommand(addConfigOptions(create, argv, ["DATA_DIR"]))
    .addCommand(addConfigOptions(list, argv, ["DATA_DIR"]))
    .addCommand(addConfigOptions(revoke, argv, ["DATA_DIR"]));
}
