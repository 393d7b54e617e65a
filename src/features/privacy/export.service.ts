import { existsSync } from "node:fs";
import { mkdir, open, rm } from "node:fs/promises";
import { extname, join } from "node:path";
import { ArchiveWriter } from "../../kernel/archive/archive-writer.ts";
import { removeGradually } from "../../kernel/archive/remove-gradually.ts";
import type { Author } from "../../kernel/author.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { sameSecret } from "../../kernel/secrets.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { Places } from "../recordings/places/places.ts";
import type { Download } from "../storage/download.ts";
import type { StorageQuota } from "../storage/quota.ts";
import type { Storages } from "../storage/storages.ts";
import { ExportQueue } from "./export-queue.ts";
import { type Holdings, KINDS } from "./holdings.ts";
import type { Person } from "./person.ts";
import { CONVERSATIONS_AT_ONCE } from "./steps.ts";
import type { PersonStore } from "./store/person.store.ts";
import type { ExportRow } from "./store/person.table.ts";
import type { Traces } from "./store/traces.ts";

type ExportDeps = {
  store: PersonStore;
  holdings: Holdings;
  traces: Traces;
  storages: Storages;
  places: Places;
  /** The reserve of the disk is not for exports. */
  quota: Pick<StorageQuota, "requireFree">;
};

const FOLDER = "exports";
const MIME_TYPE = "application/x-tar";
const KEPT_MS = 7 * 86_400_000;
const PRUNED_AT_ONCE = 50;
/** Of one person: each may be as large as everything they ever sent. */
const MOST_OF_A_PERSON = 3;
/** Of one project. */
const MOST_UNDER_WAY = 100;

export type ExportService = ReturnType<typeof exportService>;

/** Everything held about somebody as one tar: a file of JSON lines for each kind, and the files that they sent. */
export function exportService(runtime: Runtime, deps: ExportDeps) {
  const { store, holdings, traces, storages, places, quota } = deps;
  const { bus, config, ids, keyring, log, now, write } = runtime;
  const { chat, recordings } = traces;
  const folder = join(config.DATA_DIR, FOLDER);
  const pathOf = (id: string) => join(folder, `${id}.tar`);
  const queue = new ExportQueue(begin);
  /** Erased, or the server stops: what is being made is wanted no more. */
  const unwanted = new Set<string>();

  const personOf = ({ projectId, environment, userId }: ExportRow): Person => ({ projectId, environment, userId });
  const signatureOf = (id: string, expiresAt: number) =>
    keyring.digest("storage-url", JSON.stringify(["GET", "person-export", id, expiresAt]));

  function requireWanted(id: string): void {
    if (unwanted.has(id)) throw new Error("the export is wanted no more");
  }

  /** Lines go to a file of their own first: a tar tells the size of an entry before its bytes. */
  async function addLines(archive: ArchiveWriter, row: ExportRow, kind: (typeof KINDS)[number]): Promise<void> {
    const path = join(folder, `${row.id}.${kind}.jsonl`);
    try {
      // Not a stream, which waits for ever where a full disk takes no more.
      const lines = await open(path, "w", 0o600);
      try {
        for await (const page of holdings.pages(kind, personOf(row))) {
          requireWanted(row.id);
          quota.requireFree(0);
          await lines.appendFile(page.map((one) => `${JSON.stringify(one)}\n`).join(""));
        }
      } finally {
        await lines.close();
      }
      await archive.addFile(`${kind}.jsonl`, path);
    } finally {
      await rm(path, { force: true });
    }
  }

  async function addFiles(archive: ArchiveWriter, row: ExportRow): Promise<void> {
    const person = personOf(row);
    for (let after = ""; ; ) {
      const page = chat.conversations(person, after, CONVERSATIONS_AT_ONCE);
      for (const { id } of page) {
        for (const { publicId, objectKey, location, status, size } of chat.uploaded(id, person.userId)) {
          requireWanted(row.id);
          if (objectKey === null || status !== "UPLOADED") continue;
          quota.requireFree(size);
          const path = join(folder, `${row.id}.file`);
          try {
            const local = await storages.at(location)?.onThisMachine(objectKey, path);
            if (local !== undefined) await archive.addFile(`attachments/${publicId}`, local);
          } finally {
            await rm(path, { force: true });
          }
        }
      }
      after = page.at(-1)?.id ?? after;
      if (page.length < CONVERSATIONS_AT_ONCE) return;
    }
  }

  async function addTracks(archive: ArchiveWriter, row: ExportRow): Promise<void> {
    for (const track of recordings.tracks(personOf(row))) {
      requireWanted(row.id);
      // What is still on its way from a media node is in the next export.
      if (track.location === "node" || track.location === "lost") continue;
      quota.requireFree(track.bytes);
      const path = join(folder, `${row.id}.track`);
      try {
        await archive.addFile(`recordings/${track.id}${extname(track.fileName)}`, await places.copyOf(track, path));
      } finally {
        await rm(path, { force: true });
      }
    }
  }

  async function make(row: ExportRow): Promise<void> {
    requireWanted(row.id);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const archive = await ArchiveWriter.create(pathOf(row.id), now());
    try {
      for (const kind of KINDS) await addLines(archive, row, kind);
      await addFiles(archive, row);
      await addTracks(archive, row);
      requireWanted(row.id);
      const written = await archive.finish();
      await write((unit) => store.settleExport(unit, row.id, "READY", written, now()));
    } catch (error) {
      await archive.abandon().catch(() => {});
      throw error;
    }
    const older = store.exportsOf(personOf(row)).filter(({ id }) => id !== row.id);
    for (const one of older.slice(0, Math.max(0, older.length + 1 - MOST_OF_A_PERSON))) await remove(one);
  }

  async function begin(row: ExportRow): Promise<void> {
    try {
      await make(row);
    } catch (err) {
      if (unwanted.has(row.id)) return;
      log.error({ err, exportId: row.id }, "an export could not be made");
      await write((unit) => store.settleExport(unit, row.id, "FAILED", null, now())).catch((error) =>
        log.error({ err: error, exportId: row.id }, "an export could not be settled"),
      );
    }
  }

  async function remove(row: ExportRow): Promise<void> {
    const { id } = row;
    unwanted.add(id);
    await queue.leave(row);
    unwanted.delete(id);
    await removeGradually(pathOf(id));
    await write((unit) => store.removeExport(unit, id));
  }

  return {
    /** The one that is under way, if there is one already. */
    async request(person: Person, author: Author): Promise<ExportRow> {
      const { projectId, environment, userId } = person;
      quota.requireFree(0);
      const row: ExportRow = {
        ...{ id: ids.uuid(), projectId, environment, userId, status: "RUNNING", requestedAt: now() },
        ...{ bytes: null, sha256: null, finishedAt: null },
      };
      const running = await write((unit) => {
        const already = store.exportsOf(person).find(({ status }) => status === "RUNNING");
        if (already) return already;
        if (store.countRunning(projectId) >= MOST_UNDER_WAY) {
          throw new ApiError("SVC_LIMIT_REACHED", `${MOST_UNDER_WAY} exports of the project are under way. Try later.`);
        }
        store.insertExport(unit, row);
        const what = { action: "person.exported", resourceId: row.id, metadata: {} } as const;
        bus.publish(unit, "audit", { ...author, ...what, projectId, at: row.requestedAt });
        return row;
      });
      if (running === row) queue.add(row);
      return running;
    },

    /** Newest first; the last few are kept for a week. */
    of: (person: Person): ExportRow[] => store.exportsOf(person).reverse(),

    find(person: Person, id: string): ExportRow {
      const row = store.findExport(person, id);
      if (!row) throw new ApiError("SVC_EXPORT_NOT_FOUND");
      return row;
    },

    /** Where the file can be read for a while; null until there is one. */
    urlOf({ id, status }: ExportRow, publicUrl: string): string | null {
      if (status !== "READY" || !existsSync(pathOf(id))) return null;
      const expires = now() + config.STORAGE_DOWNLOAD_URL_TTL_SECONDS * 1000;
      const query = new URLSearchParams({ expires: String(expires), signature: signatureOf(id, expires) });
      return `${publicUrl}/v1/exports/${id}?${query}`;
    },

    open(id: string, query: URLSearchParams): Download {
      const expiresAt = Number(query.get("expires"));
      const genuine = sameSecret(query.get("signature") ?? "", signatureOf(id, expiresAt));
      if (!genuine || now() >= expiresAt) {
        throw new ApiError("SVC_PERMISSION_DENIED", "The address has expired, or was not issued by this server.");
      }
      const row = store.getExport(id);
      if (row?.status !== "READY" || !existsSync(pathOf(id))) throw new ApiError("SVC_EXPORT_NOT_FOUND");
      const { bytes, sha256 } = row;
      return {
        ...{ file: Bun.file(pathOf(id)), filename: `export-${id}.tar`, mimeType: MIME_TYPE },
        ...{ size: bytes ?? 0, sha256, expiresAt },
      };
    },

    /** Every export of somebody who is erased. */
    async removeOf(person: Person): Promise<void> {
      for (const row of store.exportsOf(person)) await remove(row);
    },

    /** Those that nobody has fetched for a week; called by a job. */
    async prune(): Promise<void> {
      for (;;) {
        const old = store.exportsBefore(now() - KEPT_MS, PRUNED_AT_ONCE);
        for (const row of old) await remove(row);
        if (old.length < PRUNED_AT_ONCE) return;
      }
    },

    /** Begins again what the last run did not finish. */
    start(): void {
      for (const row of store.runningExports()) queue.add(row);
    },
    async stop(): Promise<void> {
      for (const id of queue.ids) unwanted.add(id);
      await queue.settled();
    },

    settled: (): Promise<void> => queue.settled(),
  };
}
