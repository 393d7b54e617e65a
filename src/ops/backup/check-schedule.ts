import { setInstallationValue, storedValue } from "../../kernel/data-directory/installation.ts";
import type { DatabaseHealth } from "../../kernel/db/health.ts";
import { databasePath, type Runtime } from "../../kernel/runtime.ts";
import { DAY_MS } from "../../kernel/time/clock.ts";
import type { Job } from "../jobs.ts";
import { checkDatabaseInThread } from "./backup-thread.ts";

const TEN_MINUTES_MS = 600_000;
const LAST_CHECK = "last-database-check";

/** Checks all pages of the database once a day; a restart does not repeat the check. */
export function databaseCheck(
  { config, db, log, metrics, write }: Runtime,
  health: Pick<DatabaseHealth, "checked">,
): Job {
  const stopping = new AbortController();
  const lastAt = () => Number(storedValue(db, LAST_CHECK) ?? 0);
  metrics.gaugeOf("stoa_database_check_timestamp_seconds", "When all pages of the database were last checked.", () =>
    lastAt() === 0 ? null : lastAt() / 1000,
  );
  return {
    name: "check-database",
    everyMs: TEN_MINUTES_MS,
    giveUp: () => stopping.abort(),
    async runDue(now) {
      if (now - lastAt() < DAY_MS) return;
      const startedAt = performance.now();
      const damage = await checkDatabaseInThread(databasePath(config), stopping.signal);
      health.checked(damage);
      if (damage !== null) return;
      log.info({ ms: Math.round(performance.now() - startedAt) }, "database: all pages checked");
      await write((unit) => setInstallationValue(unit, db, LAST_CHECK, String(now)));
    },
  };
}
