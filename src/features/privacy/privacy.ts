import {
  PERSONAL_DATA_KINDS,
  type PersonalData,
  type PersonalDataKind,
  type User,
} from "../../kernel/personal-data.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { DAY_MS, iso } from "../../kernel/time/clock.ts";
import type { StorageQuota } from "../storage/quota.ts";
import { erasureService } from "./erasure.service.ts";
import { exportService } from "./export.service.ts";
import { privacyStore } from "./privacy.store.ts";
import type { ErasureRow, ExportRow } from "./privacy.table.ts";

const ADDRESSES_PER_UNIT = 200;

type PrivacyDeps = {
  /** The personal data of every feature, in the order in which it is erased. */
  features: PersonalData[];
  /** Removes the deleted words that the search index still contains. */
  compactSearch: () => Promise<void>;
  /** Exports do not use the disk's reserved space. */
  quota: Pick<StorageQuota, "requireFree">;
};

export type Privacy = ReturnType<typeof createPrivacy>;

/** Counts, exports and erases personal data. Each feature knows its own data; this service calls all features. */
export function createPrivacy(runtime: Runtime, { features, compactSearch, quota }: PrivacyDeps) {
  const { config, now, write } = runtime;
  const store = privacyStore(runtime.db);
  const exports = exportService(runtime, { store, features, quota });
  const erasures = erasureService(runtime, { store, features, exports, compactSearch });

  async function count(kind: PersonalDataKind, user: User): Promise<number> {
    let total = 0;
    for (const { kinds, counts } of features) {
      if (counts?.[kind]) total += await counts[kind](user);
      else if (kinds?.[kind]) for await (const page of kinds[kind](user)) total += page.length;
    }
    return total;
  }

  function presentExport(row: ExportRow, publicUrl: string) {
    const { id, status, requestedAt, finishedAt, bytes, sha256 } = row;
    const url = exports.urlOf(row, publicUrl);
    const shown = { id, status, requestedAt: iso(requestedAt), finishedAt: iso(finishedAt), bytes, sha256 };
    return { ...shown, ...(url === null ? {} : { url }) };
  }

  return {
    exports,
    erasures,
    presentErasure,
    presentExport,

    async overview(user: User, publicUrl: string) {
      const counts = {} as Record<PersonalDataKind, number>;
      for (const kind of PERSONAL_DATA_KINDS) counts[kind] = await count(kind, user);
      const total = Object.values(counts).reduce((sum, one) => sum + one, 0);
      const erasure = erasures.latest(user);
      const kept = exports.of(user).map((row) => presentExport(row, publicUrl));
      return { userId: user.userId, counts, total, erasure: erasure && presentErasure(erasure), exports: kept };
    },

    /** Removes IP addresses that are older than their retention; called by a recurring job. */
    async removeOldAddresses(): Promise<void> {
      if (config.IP_RETENTION_DAYS === 0) return;
      const before = now() - config.IP_RETENTION_DAYS * DAY_MS;
      for (const { removeAddresses } of features) {
        while (removeAddresses && (await write((unit) => removeAddresses(unit, before, ADDRESSES_PER_UNIT))) > 0);
      }
    },

    /** Continues the exports and erasures that the last run did not finish. */
    start(): void {
      exports.start();
      erasures.start();
    },
    /** Unfinished work continues after the next start. */
    async stop(): Promise<void> {
      await Promise.all([exports.stop(), erasures.stop()]);
    },
  };
}

function presentErasure({ id, requestedAt, finishedAt }: ErasureRow) {
  const status = finishedAt === null ? ("RUNNING" as const) : ("DONE" as const);
  return { id, status, requestedAt: iso(requestedAt), finishedAt: iso(finishedAt) };
}
