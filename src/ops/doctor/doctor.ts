import type { Config } from "../../kernel/config/index.ts";
import { runningServer } from "../../kernel/data-directory/data-lock.ts";
import { examineAddresses } from "./addresses.ts";
import { type Check, type Examination, fail, type Patient, reasonOf } from "./check.ts";
import { examineCommitLog } from "./commit-log.ts";
import { examineData } from "./data.ts";
import { examineDomain } from "./domain.ts";
import { examineMachine } from "./machine.ts";
import { examineOutside } from "./outside.ts";
import { examinePorts } from "./ports.ts";
import { examineProxy } from "./proxy.ts";
import { examineTurn } from "./turn.ts";
import { examineWeb } from "./web.ts";

const EXAMINATIONS: readonly Examination[] = [
  examineData,
  examineCommitLog,
  examineMachine,
  examinePorts,
  examineAddresses,
  examineDomain,
  examineTurn,
  examineWeb,
  examineProxy,
  examineOutside,
];

/** Everything that was looked at, in the order of the manual. */
export async function examine(config: Config, now: number): Promise<Check[]> {
  const patient: Patient = { config, now, running: runningServer(config.DATA_DIR) };
  const checks: Check[] = [];
  for (const examination of EXAMINATIONS) {
    try {
      checks.push(...(await examination(patient)));
    } catch (error) {
      const detail = `${examination.name}: ${reasonOf(error)}`;
      checks.push(fail("doctor", detail, "The check itself failed; please report it."));
    }
  }
  return checks;
}
