import type { Db } from "../kernel/db/open.ts";
import { randomBase62 } from "../kernel/ids.ts";
import { installationValue, setInstallationValue } from "../kernel/installation.ts";

const NAME = "chat-epoch";
const newEpoch = () => randomBase62(12);

/** Numbers events of one history. A restored backup gives the same numbers to other events, hence another epoch. */
export function chatEpoch(db: Db): string {
  return installationValue(db, NAME, newEpoch);
}

/** Called when a backup was restored: whoever resumes is told to read the history again. */
export function renewChatEpoch(db: Db): void {
  setInstallationValue(db, NAME, newEpoch());
}
