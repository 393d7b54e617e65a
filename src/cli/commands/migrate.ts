import { existsSync } from "node:fs";
import { Command } from "commander";
import type { Config } from "../../kernel/config/index.ts";
import { addConfigOptions, configFrom } from "../config-options.ts";
import { CommandFailure } from "../failure.ts";
import { print } from "../print.ts";

export function migrateCommand(argv: readonly string[]): Command {
  const migrate = new Command("migrate")
    .description("migrate the database, after copying it; `serve` does this automatically")
    .option("--compact", "also compact the database file; stop the server first")
    .action(async (options) => {
      const { config } = configFrom(options);
      if (config.COMMIT_LOG_URL !== undefined) {
        throw new CommandFailure(
          "servers that share a commit log migrate by themselves: the first of a version to lead does.",
        );
      }
      const { requireData } = await import("../data.ts");
      const { openDataBesideServer } = await import("../boot.ts");
      const { closeRuntime, databasePath } = await import("../../kernel/runtime.ts");
      const isNew = !existsSync(databasePath(config));
      if (options.compact) {
        requireData(config);
        await compact(config);
      } else await closeRuntime(openDataBesideServer(config));
      print(isNew ? `There was no data in ${config.DATA_DIR}: made a new database.` : "The database is up to date.");
    });
  return addConfigOptions(migrate, argv, ["DATA_DIR"]);
}

async function compact(config: Config): Promise<void> {
  const { lockData } = await import("../../kernel/data-directory/data-lock.ts");
  const { openData } = await import("../boot.ts");
  const { closeRuntime, databasePath } = await import("../../kernel/runtime.ts");
  const { rewriteDatabase } = await import("../../kernel/db/shrink.ts");
  const lock = lockData(config.DATA_DIR);
  try {
    const before = Bun.file(databasePath(config)).size;
    const runtime = openData(config);
    rewriteDatabase(runtime.db.$client);
    await closeRuntime(runtime);
    print(`Rewrote ${databasePath(config)}: ${before} bytes before, ${Bun.file(databasePath(config)).size} now.`);
  } finally {
    lock.release();
  }
}
