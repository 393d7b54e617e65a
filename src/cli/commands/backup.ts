import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { Command } from "commander";
import { VERSION } from "../../kernel/version.ts";
import { addConfigOptions, configFrom } from "../config-options.ts";
import { CommandFailure } from "../failure.ts";
import { print } from "../print.ts";
import { megabytes } from "../table.ts";

const HELP = `
The file holds the database, the attachments kept on this machine and the generated secrets: treat it like a password.
It is a tar with a list of checksums as its last entry. The server keeps running; set BACKUP_DIR for backups on
a schedule instead. \`stoa restore FILE --check\` tells whether a backup is whole.`;

export function backupCommand(argv: readonly string[]): Command {
  const backup = new Command("backup")
    .description("back up all data to one file; the server may be running")
    .argument("<file>", "path of the backup")
    .option("--force", "overwrite an existing file")
    .option("--json", "print what was written as one JSON object")
    .addHelpText("after", HELP)
    .action(async (name: string, options) => {
      const { config } = configFrom(options);
      const { requireData } = await import("../data.ts");
      requireData(config);
      const file = resolve(name);
      if (existsSync(file) && options.force !== true) {
        throw new CommandFailure(`${file} exists. Choose another name, or replace it with --force.`, true);
      }
      const { makeBackup } = await import("../../ops/backup/make-backup.ts");
      const { explainBackupFailures } = await import("../backup-failures.ts");
      const report = await explainBackupFailures(() =>
        makeBackup({ dataDir: config.DATA_DIR, file, now: Date.now(), version: VERSION }),
      );
      if (options.json) return print(JSON.stringify(report));
      print(`Wrote ${file}: ${megabytes(report.bytes)}, with ${report.attachments} attachments.`);
      print(`SHA-256 ${report.sha256}`);
      if (report.elsewhere > 0) {
        print(`${report.elsewhere} attachments lie in the bucket of STORAGE_S3_BUCKET and are not in it.`);
      }
    });
  return addConfigOptions(backup, argv, ["DATA_DIR"]);
}
