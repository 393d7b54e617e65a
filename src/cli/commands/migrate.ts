import { Command } from "commander";
import { addConfigOptions, configFrom } from "../config-options.ts";
import { CommandFailure } from "../failure.ts";
import { print } from "../print.ts";

export function migrateCommand(argv: readonly string[]): Command {
  const migrate = new Command("migrate")
    .description("bring the database up to date; a copy is made first, and `serve` does the same by itself")
    .action(async (options) => {
      const { config } = configFrom(options);
      if (config.COMMIT_LOG_URL !== undefined) {
        throw new CommandFailure(
          "servers that share a commit log migrate by themselves: the first of a version to lead does.",
        );
      }
      const { openData } = await import("../boot.ts");
      const { closeRuntime } = await import("../../kernel/runtime.ts");
      await closeRuntime(openData(config));
      print("The database is up to date.");
    });
  return addConfigOptions(migrate, argv, ["DATA_DIR"]);
}
