import { existsSync } from "node:fs";
import { mkdir, open, rm } from "node:fs/promises";
import { join } from "node:path";
import { ArchiveWriter } from "../../kernel/archive/archive-writer.ts";
import { removeGradually } from "../../kernel/archive/remove-gradually.ts";
import type { Author } from "../../kernel/author.ts";
import {
  PERSONAL_DATA_KINDS,
  type PersonalData,
  type PersonalDataKind,
  type User,
} from "../../kernel/personal-data.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { DAY_MS } from "../../kernel/time/clock.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { Download } from "../storage/download.ts";
import type { StorageQuota } from "../storage/quota.ts";
import { createDownloadSigner } from "../storage/signed-url.ts";
import { ExportQueue } from "./export-queue.ts";
import type { PrivacyStore } from "./privacy.store.ts";
import type { ExportRow } from "./privacy.table.ts";

type ExportDeps = { store: PrivacyStore; features: PersonalData[]; quota: Pick<StorageQuota, "requireFree"> };

const FOLDER = "exports";
const MIME_TYPE = "application/x-tar";
const KEPT_MS = 7 * DAY_MS;
const PRUNED_PER_STEP = 50;
/** Each export can be as large as everything that the user ever sent. */
const KEPT_PER_USER = 3;
const MAX_RUNNING_PER_PROJECT = 100;

export type ExportService = ReturnType<typeof exportService>;

/** Creates exports: one tar archive with a file of JSON lines for each kind of data, and the files of the user. */
export function exportService(runtime: Runtime, { store, features, quota }: ExportDeps) {
  const { bus, config, ids, keyring, log, now, write } = runtime;
  const folder = join(config.DATA_DIR, FOLDER);
  const pathOf = (id: string) => join(folder, `${id}.tar`);
  const queue = new ExportQueue(run);
  /** Exports that stop at their next step, because the user is erased or the server stops. */
  const cancelled = new Set<string>();

  const userOf = ({ projectId, environment, userId }: ExportRow): User => ({ projectId, environment, userId });
  const urls = createDownloadSigner(keyring, now, "storage-url", ["GET", "person-export"]);

  function throwIfCancelled(id: string): void {
    if (cancelled.has(id)) throw new Error("the export was cancelled");
  }

  /** The lines are written to a temporary file first, because a tar header contains the size of its entry. */
  async function addKind(archive: ArchiveWriter, row: ExportRow, kind: PersonalDataKind): Promise<void> {
    const path = join(folder, `${row.id}.${kind}.jsonl`);
    try {
      // A write stream would wait forever when the disk is full.
      const file = await open(path, "w", 0o600);
      try {
        for (const { kinds } of features) {
          for await (const page of kinds?.[kind]?.(userOf(row)) ?? []) {
            throwIfCancelled(row.id);
            quota.requireFree(0);
            await file.appendFile(page.map((one) => `${JSON.stringify(one)}\n`).join(""));
          }
        }
      } finally {
        await file.close();
      }
      await archive.addFile(`${kind}.jsonl`, path);
    } finally {
      await rm(path, { force: true });
    }
  }

  async function addFiles(archive: ArchiveWriter, row: ExportRow): Promise<void> {
    const path = join(folder, `${row.id}.file`);
    for (const { files } of features) {
      for await (const file of files?.(userOf(row)) ?? []) {
        throwIfCancelled(row.id);
        quota.requireFree(file.bytes);
        try {
          await archive.addFile(file.name, await file.open(path));
        } finally {
          await rm(path, { force: true });
        }
      }
    }
  }

  async function make(row: ExportRow): Promise<void> {
    throwIfCancelled(row.id);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const archive = await ArchiveWriter.create(pathOf(row.id), now());
    try {
      for (const kind of PERSONAL_DATA_KINDS) await addKind(archive, row, kind);
      await addFiles(archive, row);
      throwIfCancelled(row.id);
      const written = await archive.finish();
      await write((unit) => store.settleExport(unit, row.id, "READY", written, now()));
    } catch (error) {
      await archive.abandon().catch(() => {});
      throw error;
    }
    const older = store.exportsOf(userOf(row)).filter(({ id }) => id !== row.id);
    for (const one of older.slice(0, Math.max(0, older.length + 1 - KEPT_PER_USER))) await remove(one);
  }

  async function run(row: ExportRow): Promise<void> {
    try {
      await make(row);
    } catch (err) {
      if (cancelled.has(row.id)) return;
      log.error({ err, exportId: row.id }, "privacy: export failed");
      await write((unit) => store.settleExport(unit, row.id, "FAILED", null, now())).catch((error) =>
        log.error({ err: error, exportId: row.id }, "privacy: failure of an export not saved"),
      );
    }
  }

  async function remove(row: ExportRow): Promise<void> {
    const { id } = row;
    cancelled.add(id);
    await queue.cancel(row);
    cancelled.delete(id);
    await removeGradually(pathOf(id));
    await write((unit) => store.removeExport(unit, id));
  }

  return {
    /** Returns the export in progress for the user, if there is one. */
    async request(user: User, author: Author): Promise<ExportRow> {
      const { projectId, environment, userId } = user;
      quota.requireFree(0);
      const row: ExportRow = {
        id: ids.uuid(),
        projectId,
        environment,
        userId,
        status: "RUNNING",
        requestedAt: now(),
        bytes: null,
        sha256: null,
        finishedAt: null,
      };
      const running = await write((unit) => {
        const already = store.exportsOf(user).find(({ status }) => status === "RUNNING");
        if (already) return already;
        if (store.countRunning(projectId) >= MAX_RUNNING_PER_PROJECT) {
          throw new ApiError(
            "SVC_LIMIT_REACHED",
            `${MAX_RUNNING_PER_PROJECT} exports of the project are under way. Try later.`,
          );
        }
        store.insertExport(unit, row);
        const entry = { action: "person.exported", resourceId: row.id, metadata: {} } as const;
        bus.publish(unit, "audit", { ...author, ...entry, projectId, at: row.requestedAt });
        return row;
      });
      if (running === row) queue.add(row);
      return running;
    },

    /** The exports of a user, newest first. */
    of: (user: User): ExportRow[] => store.exportsOf(user).reverse(),

    find(user: User, id: string): ExportRow {
      const row = store.findExport(user, id);
      if (!row) throw new ApiError("SVC_EXPORT_NOT_FOUND");
      return row;
    },

    /** A signed URL of the file; null until the export is ready. */
    urlOf({ id, status }: ExportRow, publicUrl: string): string | null {
      if (status !== "READY" || !existsSync(pathOf(id))) return null;
      const expires = now() + config.STORAGE_DOWNLOAD_URL_TTL_SECONDS * 1000;
      return `${publicUrl}/v1/exports/${id}?${urls.query(id, expires)}`;
    },

    open(id: string, query: URLSearchParams): Download {
      const expiresAt = urls.check(id, query);
      const row = store.getExport(id);
      if (row?.status !== "READY" || !existsSync(pathOf(id))) throw new ApiError("SVC_EXPORT_NOT_FOUND");
      const { bytes, sha256 } = row;
      return {
        file: Bun.file(pathOf(id)),
        filename: `export-${id}.tar`,
        mimeType: MIME_TYPE,
        size: bytes ?? 0,
        sha256,
        expiresAt,
      };
    },

    async removeOf(user: User): Promise<void> {
      for (const row of store.exportsOf(user)) await remove(row);
    },

    /** Removes exports after a week; called by a recurring job. */
    async prune(): Promise<void> {
      for (;;) {
        const old = store.exportsBefore(now() - KEPT_MS, PRUNED_PER_STEP);
        for (const row of old) await remove(row);
        if (old.length < PRUNED_PER_STEP) return;
      }
    },

    /** Restarts exports that the last run did not finish. */
    start(): void {
      for (const row of store.runningExports()) queue.add(row);
    },
    async stop(): Promise<void> {
      for (const id of queue.ids) cancelled.add(id);
      await queue.settled();
    },

    settled: (): Promise<void> => queue.settled(),
  };
}
