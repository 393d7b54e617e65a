import type { Author } from "../../kernel/author.ts";
import { ScrubDelayed, scrubDatabase } from "../../kernel/db/scrub.ts";
import type { PersonalData, User } from "../../kernel/personal-data.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { appendErasure, digestsOf, readErasures } from "./erasure-list.ts";
import type { ExportService } from "./export.service.ts";
import type { PrivacyStore } from "./privacy.store.ts";
import type { ErasureRow } from "./privacy.table.ts";

type ErasureDeps = {
  store: PrivacyStore;
  exports: ExportService;
  features: PersonalData[];
  compactSearch: () => Promise<void>;
};

const DISCONNECT_CHECK_MS = 250;
/** A client that does not answer the close is disconnected long before this many checks. */
const DISCONNECT_CHECKS = 240;
const RETRY_MS = 5_000;

/** Erases users: a request is accepted in one transaction and carried out in the background, even after a crash. */
export function erasureService(runtime: Runtime, { store, features, exports, compactSearch }: ErasureDeps) {
  const { bus, config, db, ids, keyring, log, now, write } = runtime;
  const inMemory = db.$client.filename === ":memory:" || db.$client.filename === "";
  let working: Promise<void> | null = null;
  let stopped = false;

  function addToList({ id, requestedAt: at, projectId, environment, digest }: ErasureRow): void {
    if (!inMemory) appendErasure(config.DATA_DIR, { id, at, projectId, environment, digest, key: keyring.fingerprint });
  }

  function newErasure({ projectId, environment, userId }: User, digest: string): ErasureRow {
    const request = { id: ids.uuid(), projectId, environment, digest, userId, requestedAt: now() };
    return { ...request, erasedAt: null, finishedAt: null };
  }

  async function untilDisconnected(user: User): Promise<void> {
    for (let check = 0; check < DISCONNECT_CHECKS && !stopped; check++) {
      if (!features.some(({ isConnected }) => isConnected?.(user))) return;
      await Bun.sleep(DISCONNECT_CHECK_MS);
    }
  }

  async function erase(user: User): Promise<void> {
    await write((unit) => {
      for (const { revoke } of features) revoke?.(unit, user);
    });
    await exports.removeOf(user);
    await untilDisconnected(user);
    // Records that are written when the user leaves are on disk before the erasure starts.
    await runtime.writer.drain();
    for (const feature of features) await feature.erase?.(user);
    // An export that was requested meanwhile contains what had not been erased yet.
    await exports.removeOf(user);
  }

  /** Overwrites the remains of deleted rows in the database files. A running backup delays this until it is done. */
  async function overwriteDeleted(): Promise<void> {
    await compactSearch();
    while (!stopped) {
      try {
        return await scrubDatabase(db.$client);
      } catch (error) {
        if (!(error instanceof ScrubDelayed)) throw error;
        await Bun.sleep(RETRY_MS);
      }
    }
  }

  async function finish({ id, projectId, environment, userId }: ErasureRow): Promise<void> {
    if (userId !== null) {
      await erase({ projectId, environment, userId });
      if (stopped) return;
      await write((unit) => store.erased(unit, id, now()));
    }
    await overwriteDeleted();
    if (!stopped) await write((unit) => store.finished(unit, id, now()));
  }

  async function finishAll(): Promise<void> {
    while (!stopped) {
      try {
        const [next] = store.openErasures();
        if (!next) return;
        await finish(next);
      } catch (err) {
        if (stopped) return;
        log.error({ err }, "privacy: erasure failed, trying again");
        await Bun.sleep(RETRY_MS);
      }
    }
  }

  function run(): Promise<void> {
    working ??= finishAll().finally(() => {
      working = null;
    });
    return working;
  }

  const latest = (user: User): ErasureRow | null => {
    const [erasure = null] = digestsOf(keyring, user).flatMap((digest) => store.latestErasure(user, digest) ?? []);
    return erasure;
  };

  return {
    /** The last erasure of the user, done or under way. */
    latest,

    /** A repeated request while an erasure runs returns the same erasure. */
    async request(user: User, author: Author): Promise<ErasureRow> {
      const [digest = ""] = digestsOf(keyring, user);
      const erasure = await write((unit) => {
        const known = latest(user);
        if (known && known.erasedAt === null) return known;
        const row = newErasure(user, digest);
        store.insertErasure(unit, row);
        const entry = { action: "person.erased", resourceId: row.id, metadata: {} } as const;
        bus.publish(unit, "audit", { ...author, ...entry, projectId: user.projectId, at: row.requestedAt });
        return row;
      });
      addToList(erasure);
      void run();
      return erasure;
    },

    /**
     * Erases users again whose erasures are missing from a restored backup. Runs on restored data, without a server.
     */
    async eraseAgain(users: { user: User; digest: string }[]): Promise<void> {
      for (const { user, digest } of users) {
        await write((unit) => void store.insertErasure(unit, newErasure(user, digest)));
      }
      await run();
    },

    start(): void {
      const listed = new Set(inMemory ? [] : readErasures(config.DATA_DIR).map(({ id }) => id));
      for (const erasure of store.openErasures()) if (!listed.has(erasure.id)) addToList(erasure);
      void run();
    },
    async stop(): Promise<void> {
      stopped = true;
      await working;
    },

    /** Resolves when no erasure is running. */
    settled: async (): Promise<void> => {
      while (working) await working;
    },
  };
}
