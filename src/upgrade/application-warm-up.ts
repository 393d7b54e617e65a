import { createApp } from "../app.ts";
import type { Config } from "../kernel/config/index.ts";
import { createReadiness } from "../kernel/http/health.ts";
import { createLog } from "../kernel/log.ts";
import { closeRuntime, createRuntime } from "../kernel/runtime.ts";
import type { Timers } from "../kernel/time/timers.ts";
import { createServices } from "../services.ts";

const NO_TIMERS: Timers = { after: () => () => {} };

/**
 * Creates the application with an empty database in memory, and drops it. Most of the code of a server runs for the first time then,
 * which takes several times as long as the second time, when requests wait for it.
 */
export async function warmUpApplication(config: Config): Promise<void> {
  // The log would say that a database was migrated.
  const log = createLog({ level: "silent", format: config.LOG_FORMAT });
  const runtime = createRuntime(config, { log, inMemory: true, timers: NO_TIMERS });
  const services = createServices(runtime);
  createApp({ runtime, services, readiness: createReadiness(), sfuSecret: "", doctorSecret: "" });
  await closeRuntime(runtime);
}
