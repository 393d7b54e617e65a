import {
  type InstallationData,
  installationValue,
  setInstallationValue,
} from "../../kernel/data-directory/installation.ts";
import type { Db } from "../../kernel/db/open.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import { randomBase62 } from "../../kernel/ids.ts";

const NAME = "chat-epoch";
const newEpoch = () => randomBase62(12);

/** Numbers events of one history. A restored backup gives the same numbers to other events, hence another epoch. */
export function chatEpoch(data: InstallationData): string {
  return installationValue(data, NAME, newEpoch);
}

/** Called when a backup was restored: whoever resumes is told to read the history again. */
export function renewChatEpoch(unit: Unit, db: Db): void {
  setInstallationValue(unit, db, NAME, newEpoch());
}
