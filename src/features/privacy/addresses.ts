import type { Runtime } from "../../kernel/runtime.ts";
import { addressStore } from "./store/address.store.ts";

const DAY_MS = 86_400_000;
/** Rows per unit of work, so that no send waits for long. */
const AT_ONCE = 200;

/** Takes the addresses out of records of connections that began too long ago; called by a job. */
export function addressRetention({ config, db, now, write }: Runtime) {
  const store = addressStore(db);
  return async (): Promise<void> => {
    if (config.IP_RETENTION_DAYS === 0) return;
    const before = now() - config.IP_RETENTION_DAYS * DAY_MS;
    while ((await write((unit) => store.forget(unit, before, AT_ONCE))) > 0);
  };
}
