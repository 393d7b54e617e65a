import type { Unit } from "../../../kernel/db/writer.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { Location } from "../../storage/storage.ts";
import type { Storages } from "../../storage/storages.ts";
import type { AttachmentStore } from "./attachment.store.ts";
import type { AttachmentRow } from "./attachment.table.ts";

/** An upload that is neither sent nor finished by then is given up. */
const UNSENT_LIFETIME_MS = 24 * 3_600_000;
/** For this long an expired attachment still answers what became of it. */
const EXPIRED_SHOWN_MS = 30 * 24 * 3_600_000;
/** A bucket's clock may differ from ours. */
const CLOCK_SKEW_MS = 900_000;
/** Rows per unit of work: a send never waits longer than that takes. */
const BATCH = 50;

export type AttachmentRemovals = ReturnType<typeof attachmentRemovals>;

/**
 * How bytes go. What is forgotten is queued in the transaction that forgets it, and removed once that is on disk; what
 * fails (a bucket that does not answer) stays queued for the job's next turn.
 */
export function attachmentRemovals(
  runtime: Runtime,
  { store, storages }: { store: AttachmentStore; storages: Storages },
) {
  const { config, log, now, write } = runtime;
  let running: Promise<void> | null = null;
  let asked = false;
  let stopped = false;

  async function removeQueued(): Promise<void> {
    for (;;) {
      let failed = 0;
      const batch = store.queuedRemovals(now(), BATCH);
      for (const { objectKey, location } of batch) {
        if (stopped) return;
        try {
          await storages.at(location)?.remove(objectKey);
          await write((unit) => store.removed(unit, objectKey));
        } catch (err) {
          failed += 1;
          log.warn({ err, location }, "a file could not be removed yet");
        }
      }
      if (batch.length < BATCH || failed > 0) return;
    }
  }

  /** One at a time; asked again meanwhile, it looks again. */
  function run(): Promise<void> {
    if (stopped) return Promise.resolve();
    asked = true;
    running ??= (async () => {
      try {
        while (asked) {
          asked = false;
          await removeQueued();
        }
      } finally {
        running = null;
      }
    })();
    return running;
  }

  /** Until then the address of an upload to a bucket can be used, also to fill the key again. */
  const addressEndsAt = (createdAt: number) => createdAt + config.STORAGE_UPLOAD_URL_TTL_SECONDS * 1000 + CLOCK_SKEW_MS;

  function queue(unit: Unit, row: Pick<AttachmentRow, "objectKey" | "location" | "status" | "createdAt">): void {
    const { objectKey, location, status, createdAt } = row;
    if (objectKey === null) return;
    const isOpen = status === "PENDING" && location !== "disk" && now() < addressEndsAt(createdAt);
    store.queueRemoval(unit, objectKey, location, isOpen ? addressEndsAt(createdAt) : now());
    unit.afterCommit(() => {
      // What is there goes now; what is still sent to it, with the queue.
      const removed = isOpen ? storages.at(location)?.remove(objectKey) : run();
      removed?.catch((err) => log.warn({ err }, "attachment files not removed; the next cleanup does it"));
    });
  }

  return {
    /** The bytes of this row are wanted no more. */
    queue,

    /** The same, at a later time; the job comes by. */
    queueFor: (unit: Unit, at: number, objectKey: string, location: Location): void =>
      store.queueRemoval(unit, objectKey, location, at),

    /** An upload whose bytes were copied elsewhere: the key goes when its address is over. */
    queueUpload: (unit: Unit, { createdAt, location }: AttachmentRow, objectKey: string): void =>
      store.queueRemoval(unit, objectKey, location, addressEndsAt(createdAt)),

    /** They are wanted after all. */
    spare: (unit: Unit, objectKey: string): void => store.removed(unit, objectKey),

    run,

    /** What is still queued is removed by the next run of the server. */
    async stop(): Promise<void> {
      stopped = true;
      await running;
    },

    /** Gives up what was not sent within a day, in small units of work. */
    async expireUnsent(): Promise<number> {
      let expired = 0;
      for (;;) {
        const done = await write((unit) => {
          const rows = store.unsent(now() - UNSENT_LIFETIME_MS, BATCH);
          for (const row of rows) {
            store.expire(unit, row.id);
            queue(unit, row);
          }
          store.forgetExpired(unit, now() - EXPIRED_SHOWN_MS, BATCH);
          return rows.length;
        });
        expired += done;
        if (done < BATCH) return expired;
      }
    },
  };
}
