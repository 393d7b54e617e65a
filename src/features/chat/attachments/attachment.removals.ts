import type { Unit } from "../../../kernel/db/writer.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { SerialRun } from "../../../kernel/scheduling/serial-run.ts";
import { DAY_MS } from "../../../kernel/time/clock.ts";
import type { Location } from "../../storage/storage.ts";
import type { Storages } from "../../storage/storages.ts";
import type { AttachmentStore } from "./attachment.store.ts";
import type { AttachmentRow } from "./attachment.table.ts";

/** An attachment that is not sent within this time expires. */
const UNSENT_LIFETIME_MS = DAY_MS;
/** Expired attachments stay visible for this time. */
const EXPIRED_KEEP_MS = 30 * DAY_MS;
const CLOCK_SKEW_MS = 900_000;
/** Rows per unit of work; messages to be sent wait until the unit of work is committed. */
const BATCH = 50;

export type AttachmentRemovals = ReturnType<typeof attachmentRemovals>;

/**
 * Removes stored objects. A removal is queued in the transaction that drops the last reference and runs once the
 * transaction is on disk. A failed removal, for example because the bucket does not respond, stays queued for the next
 * run of the job.
 */
export function attachmentRemovals(
  runtime: Runtime,
  { store, storages }: { store: AttachmentStore; storages: Storages },
) {
  const { config, log, now, write } = runtime;
  const passes = new SerialRun(removeQueued);
  let stopped = false;

  async function removeQueued(): Promise<void> {
    while (!stopped) {
      let failed = 0;
      const batch = store.queuedRemovals(now(), BATCH);
      for (const { objectKey, location } of batch) {
        if (stopped) return;
        try {
          await storages.at(location)?.remove(objectKey);
          await write((unit) => store.removed(unit, objectKey));
        } catch (err) {
          failed += 1;
          log.warn({ err, location }, "attachments: file not removed, retrying");
        }
      }
      if (batch.length < BATCH || failed > 0) return;
    }
  }

  const run = (): Promise<void> => passes.run();

  /** Until this time a signed upload URL can write to the object, even after its removal. */
  const addressEndsAt = (createdAt: number) => createdAt + config.STORAGE_UPLOAD_URL_TTL_SECONDS * 1000 + CLOCK_SKEW_MS;

  function queue(unit: Unit, row: Pick<AttachmentRow, "objectKey" | "location" | "status" | "createdAt">): void {
    const { objectKey, location, status, createdAt } = row;
    if (objectKey === null) return;
    const isWritable = status === "PENDING" && location !== "disk" && now() < addressEndsAt(createdAt);
    const queuedAt = isWritable ? addressEndsAt(createdAt) : now();
    store.queueRemoval(unit, { objectKey, location, queuedAt });
    unit.afterCommit(() => {
      // A writable object is removed now, and once more from the queue when its upload URL has expired.
      const removed = isWritable ? storages.at(location)?.remove(objectKey) : run();
      removed?.catch((err) => log.warn({ err }, "attachments: file not removed, retrying"));
    });
  }

  return {
    queue,

    /** Removes an object at a later time, unless `cancel` is called by then. */
    queueAt: (unit: Unit, queuedAt: number, objectKey: string, location: Location): void =>
      void store.queueRemoval(unit, { objectKey, location, queuedAt }),

    /** Removes an upload that was copied to its final key, once its upload URL has expired. */
    queueUpload: (unit: Unit, { createdAt, location }: AttachmentRow, objectKey: string): void =>
      void store.queueRemoval(unit, { objectKey, location, queuedAt: addressEndsAt(createdAt) }),

    cancel: (unit: Unit, objectKey: string): void => store.removed(unit, objectKey),

    run,

    /** Queued removals continue after the next start. */
    async stop(): Promise<void> {
      stopped = true;
      await passes.running;
    },

    /** Expires attachments that were not sent in time. */
    async expireUnsent(): Promise<number> {
      let expired = 0;
      for (;;) {
        const done = await write((unit) => {
          const rows = store.unsent(now() - UNSENT_LIFETIME_MS, BATCH);
          for (const row of rows) {
            store.update(unit, row.id, { status: "EXPIRED", objectKey: null, sha256: null });
            queue(unit, row);
          }
          store.forgetExpired(unit, now() - EXPIRED_KEEP_MS, BATCH);
          return rows.length;
        });
        expired += done;
        if (done < BATCH) return expired;
      }
    },
  };
}
