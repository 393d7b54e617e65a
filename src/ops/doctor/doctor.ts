import type { Config } from "../../kernel/config/index.ts";
import { runningServer } from "../../kernel/data-directory/data-lock.ts";
import { checkAddresses } from "./addresses.ts";
import { type Check, type CheckGroup, fail, type CheckContext, reasonOf } from "./check.ts";
import { checkCommitLog } from "./commit-log.ts";
import { checkData } from "./data.ts";
import { checkDomain } from "./domain.ts";
import { checkMachine } from "./machine.ts";
import { checkExternalServices } from "./external-services.ts";
import { checkPorts } from "./ports.ts";
import { checkProxyHeaders } from "./proxy.ts";
import { checkTurn } from "./turn.ts";
import { checkWeb } from "./web.ts";

const EXAMINATIONS: readonly CheckGroup[] = [
  checkData,
  checkCommitLog,
  checkMachine,
  checkPorts,
  checkAddresses,
  checkDomain,
  checkTurn,
  checkWeb,
  checkProxyHeaders,
  checkExternalServices,
];

/** Everything that was looked at, in the order of the manual. */
export async function runChecks(config: Config, now: number): Promise<Check[]> {
  const context: CheckContext = { config, now, running: runningServer(config.DATA_DIR) };
  const checks: Check[] = [];
  for (const examination of EXAMINATIONS) {
    try {
      checks.push(...(await examination(context)));
    } catch (error) {
      const detail = `${examination.name}: ${reasonOf(error)}`;
      checks.push(fail("doctor", detail, "The check itself failed; please report it."));
    }
  }
  return checks;
}
