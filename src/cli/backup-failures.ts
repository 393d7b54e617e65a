import { BackupRefused } from "../kernel/data-directory/data-contents.ts";
import { ExchangeBroken } from "../kernel/data-directory/data-exchange.ts";
import { DataInUse } from "../kernel/data-directory/data-lock.ts";
import { CommandFailure } from "./failure.ts";

/** Turns errors of a backup or restore that an operator can correct into one-line messages. */
export async function explainBackupFailures<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    const known = [BackupRefused, DataInUse, ExchangeBroken];
    if (known.some((kind) => error instanceof kind)) throw new CommandFailure((error as Error).message);
    const { code, message } = error as { code?: string; message?: string };
    if (code === "ENOSPC" || code === "SQLITE_FULL") throw new CommandFailure("the disk is full; nothing was changed.");
    if (code !== undefined) throw new CommandFailure(message ?? code);
    throw error;
  }
}
