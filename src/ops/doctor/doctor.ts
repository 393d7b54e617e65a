import type { Config } from "../../kernel/config/index.ts";
import { runningServer } from "../../kernel/data-directory/data-lock.ts";
import { messageOf } from "../../kernel/error-message.ts";
import { checkAddresses } from "./addresses.ts";
import { type Check, type CheckContext, type CheckGroup, fail } from "./check.ts";
import { checkCommitLog } from "./commit-log.ts";
import { checkData } from "./data.ts";
import { checkDomain } from "./domain.ts";
import { checkExternalServices } from "./external-services.ts";
import { checkMachine } from "./machine.ts";
import { checkPorts } from "./ports.ts";
import { checkProxyHeaders } from "./proxy.ts";
import { checkTurn } from "./turn.ts";
import { checkWeb } from "./web.ts";

const GROUPS: readonly CheckGroup[] = [
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

export async function runChecks(config: Config, now: number): Promise<Check[]> {
  const note = runningServer(config.DATA_DIR);
  const context: CheckContext =
    note?.role === "standby" ? { config, now, running: null, standby: note } : { config, now, running: note };
  const checks: Check[] = [];
  for (const group of GROUPS) {
    try {
      checks.push(...(await group(context)));
    } catch (error) {
      const detail = `${group.name}: ${messageOf(error)}`;
      checks.push(fail("doctor", detail, "The check itself failed; please report it."));
    }
  }
  return checks;
}
