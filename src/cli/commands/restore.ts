import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { resolve } from "node:path";
import { Command } from "commander";
import { addConfigOptions, configFrom } from "../config-options.ts";
import { CommandFailure } from "../failure.ts";
import { print } from "../print.ts";

const HELP = `
The backup is read to its last byte before anything is changed. Data that is there already is kept in a folder of the
data directory. Chat clients that were connected read their history again. Users who were erased after the backup was
made are erased again.

Chat and RTC tokens of end users that were minted before the restore become invalid, because the backup does not know
which of them were revoked since: clients get new ones from your backend. --keep-tokens keeps them valid.`;

const TOKENS_VOID =
  "Tokens of end users that were minted until now become invalid; clients need new ones (--keep-tokens keeps them).";

const users = (count: number) => (count === 1 ? "1 user was" : `${count} users were`);

export function restoreCommand(argv: readonly string[]): Command {
  const restore = new Command("restore")
    .description("restore a backup, replacing the current data; stop the server first")
    .argument("<file>", "a file that `stoa backup` wrote")
    .option("--check", "only verify that the backup is complete and undamaged")
    .option("--keep-tokens", "keep end users' tokens valid, including those revoked since the backup")
    .option("--json", "print what was done as one JSON object")
    .addHelpText("after", HELP)
    .action(async (name: string, options) => {
      const { config } = configFrom(options);
      const { restoreBackup, verifyBackup } = await import("../../ops/backup/restore.ts");
      const { lockData } = await import("../../kernel/data-directory/data-lock.ts");
      const { assetFolder } = await import("../../kernel/assets.ts");
      const { explainBackupFailures } = await import("../backup-failures.ts");
      const { DATA_DIR: dataDir } = config;
      const file = resolve(name);
      const migrationsDir = assetFolder("migrations");
      const now = Date.now();
      if (!existsSync(file)) throw new CommandFailure(`there is no file ${file}`);
      await explainBackupFailures(async () => {
        if (options.check) {
          const folder = existsSync(dataDir) ? dataDir : tmpdir();
          const found = await verifyBackup({ file, dataDir: folder, migrationsDir, now });
          print(
            options.json
              ? JSON.stringify(found)
              : `${file} is whole: made ${found.createdAt} by Stoa ${found.version}.`,
          );
          if (!options.json && !options.keepTokens) print(`If it is restored: ${TOKENS_VOID}`);
          return;
        }
        const lock = lockData(dataDir);
        try {
          const { keepTokens = false } = options;
          if (!keepTokens && !options.json) print(TOKENS_VOID);
          const { eraseAgain } = await import("../erase-again.ts");
          const again = eraseAgain(config);
          const report = await restoreBackup({ file, dataDir, migrationsDir, now, keepTokens, prepare: again.prepare });
          const { erasedAgain, unreadable } = again;
          if (options.json) return print(JSON.stringify({ ...report, erasedAgain: erasedAgain() }));
          print(`Restored the data of ${report.createdAt} into ${dataDir}.`);
          if (erasedAgain() > 0) {
            print(`${users(erasedAgain())} erased after the backup was made, and erased again in it.`);
          }
          if (unreadable() > 0) {
            print(`${users(unreadable())} erased with another STOA_SECRET: erase them again yourself.`);
          }
          if (report.setAside) print(`What was there is in ${report.setAside}; remove it when you no longer need it.`);
        } finally {
          lock.release();
        }
      });
    });
  return addConfigOptions(restore, argv, ["DATA_DIR"]);
}
