import { Command } from "commander";
import type { Config } from "../../kernel/config/index.ts";
import type { CommitLog } from "../../kernel/db/commit-log.ts";
import { addConfigOptions, configFrom } from "../config-options.ts";
import { CommandFailure } from "../failure.ts";
import { print } from "../print.ts";
import { table } from "../table.ts";

const HELP = `
Servers with one COMMIT_LOG_URL share a commit log: one of them leads, and the others hold the same data and take over
within seconds. \`stoa manual standby\` tells how to set them up.`;

export function clusterCommand(argv: readonly string[]): Command {
  const show = new Command("show")
    .description("list the servers, their replication lag, and the leader")
    .option("--json", "as one JSON object")
    .action(async (options) => {
      const { config } = configFrom(options);
      await withLog(config, async (log) => {
        const { readMembers } = await import("../../cluster/overview.ts");
        const { members, term } = await readMembers(log);
        if (options.json) return print(JSON.stringify({ term, members }));
        const rows = members.map(({ url, role, position, lag, version, silentMs }) => [
          url,
          role,
          String(position),
          String(lag),
          version,
          silentMs < 5_000 ? "now" : `${Math.round(silentMs / 1000)} s ago`,
        ]);
        print(
          rows.length === 0
            ? "No server is there."
            : table(["SERVER", "ROLE", "POSITION", "LAG", "VERSION", "SEEN"], rows),
        );
      });
    });

  const reset = new Command("reset")
    .description("empty the commit log; the next server to start fills it with its own data")
    .option("--yes", "do it; servers that share the log must have stopped")
    .action(async (options) => {
      const { config } = configFrom(options);
      await withLog(config, async (log) => {
        const { readMembers } = await import("../../cluster/overview.ts");
        const present = (await readMembers(log)).members.filter(({ silentMs }) => silentMs < 10_000);
        if (present.length > 0) {
          throw new CommandFailure(`${present.map(({ url }) => url).join(", ")} still runs. Stop every server first.`);
        }
        if (options.yes !== true) throw new CommandFailure("this forgets the whole log. Say so with --yes.", true);
        await log.reset();
        print("The commit log is empty. The next server to start begins it with its data.");
      });
    });

  return new Command("cluster")
    .description("inspect and reset a high-availability cluster")
    .addHelpText("after", HELP)
    .addCommand(addConfigOptions(show, argv, ["COMMIT_LOG_URL"]), { isDefault: true })
    .addCommand(addConfigOptions(reset, argv, ["COMMIT_LOG_URL"]));
}

async function withLog(
  { COMMIT_LOG_URL: url, STOA_SECRET: secret }: Config,
  work: (log: CommitLog) => Promise<void>,
): Promise<void> {
  if (url === undefined) throw new CommandFailure("COMMIT_LOG_URL is not set: this server stands alone.", true);
  const { postgresLog } = await import("../../kernel/db/postgres-log.ts");
  const { createLog } = await import("../../kernel/log.ts");
  const { systemTimers } = await import("../../kernel/time/timers.ts");
  const { createKeyring } = await import("../../kernel/crypto/secrets.ts");
  const { LogSeal } = await import("../../kernel/db/log-seal.ts");
  // Without the secret the rows are shown without verification.
  const key = secret === undefined ? null : createKeyring(secret).key("commit-log");
  const log = postgresLog(url, {
    log: createLog({ level: "silent", format: "json" }),
    timers: systemTimers,
    seal: key === null ? undefined : new LogSeal({ key, isRequired: false }),
  });
  try {
    await work(log);
  } catch (error) {
    throw (error as Error).name === "LogUnavailable" ? new CommandFailure(`${(error as Error).message}.`) : error;
  } finally {
    await log.close();
  }
}
