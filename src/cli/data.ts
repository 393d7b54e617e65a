import type { Config } from "../kernel/config/index.ts";
import { ApiError } from "../protocol/errors.ts";
import type { Runtime } from "../runtime.ts";
import { closeRuntime } from "../runtime.ts";
import { createServices, type Services } from "../services.ts";
import { openData } from "./boot.ts";
import { CommandFailure } from "./failure.ts";

/** Works on the data directly, also beside a running server; a refusal of the rules is shown as its sentence. */
export async function withServices(
  config: Config,
  work: (services: Services, runtime: Runtime) => Promise<void>,
): Promise<void> {
  const runtime = openData({ ...config, LOG_LEVEL: "error" });
  try {
    await work(createServices(runtime), runtime);
  } catch (error) {
    throw error instanceof ApiError ? new CommandFailure(error.message) : error;
  } finally {
    await closeRuntime(runtime);
  }
}
