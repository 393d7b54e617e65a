import type { Author } from "../../kernel/author.ts";
import { ScrubDelayed, scrubDatabase } from "../../kernel/db/scrub.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Attachments } from "../chat/attachments/attachments.ts";
import type { ChatService } from "../chat/chat.ts";
import type { SearchService } from "../chat/search/search.service.ts";
import type { Recordings } from "../recordings/recordings.ts";
import type { LiveRooms } from "../rooms/live-rooms.ts";
import type { Recorder } from "../sessions/recorder.ts";
import type { Eraser } from "./erase.ts";
import { listErasure, listedErasures } from "./erasure-list.ts";
import type { ExportService } from "./export.service.ts";
import type { Person } from "./person.ts";
import type { PersonStore } from "./store/person.store.ts";
import type { ErasureRow } from "./store/person.table.ts";

export type ErasureDeps = {
  store: PersonStore;
  eraser: Eraser;
  exports: ExportService;
  chat: ChatService;
  search: SearchService;
  attachments: Attachments;
  recorder: Recorder;
  liveRooms: LiveRooms;
  recordings: Pick<Recordings, "settled">;
};

/** Between two looks whether somebody who was sent away is gone, and before what failed is tried again. */
const LOOK_AGAIN_MS = 250;
const AFTER_TROUBLE_MS = 5_000;
/** A client that does not answer the close is cut off long before. */
const LOOKS = 240;

export type ErasureService = ReturnType<typeof erasureService>;

/** Erases people: accepted in one transaction, done in the background, and gone on with after a crash. */
export function erasureService(runtime: Runtime, deps: ErasureDeps) {
  const { bus, config, db, ids, keyring, log, now, write } = runtime;
  const { store, eraser, exports, chat, search, attachments, recorder, liveRooms, recordings } = deps;
  const inMemory = db.$client.filename === ":memory:" || db.$client.filename === "";
  let working: Promise<void> | null = null;
  let stopped = false;

  const digestOf = ({ projectId, environment, userId }: Person) =>
    keyring.digest("erasure", JSON.stringify([projectId, environment, userId]));

  function note({ id, requestedAt: at, projectId, environment, digest }: ErasureRow): void {
    if (!inMemory) listErasure(config.DATA_DIR, { id, at, projectId, environment, digest, key: keyring.fingerprint });
  }

  const socketsOf = ({ projectId, environment, userId }: Person) =>
    [...chat.live.hub.sockets].filter(
      ({ caller }) => caller.userId === userId && caller.projectId === projectId && caller.environment === environment,
    );

  async function untilGone(person: Person): Promise<void> {
    for (let look = 0; look < LOOKS && !stopped; look++) {
      if (socketsOf(person).length === 0 && liveRooms.roomsOf(person, person.userId).length === 0) return;
      await Bun.sleep(LOOK_AGAIN_MS);
    }
  }

  async function erase(person: Person): Promise<void> {
    const remove = (unit: Unit, roomId: string) =>
      bus.publish(unit, "participantRemoved", { roomId, identity: person.userId });
    await eraser.closeDoors(person, liveRooms.roomsOf(person, person.userId), remove);
    await exports.removeOf(person);
    await eraser.content(person);
    await untilGone(person);
    // Whatever was being written of those who left is on disk, or never will be.
    chat.live.connections.forget(person, person.userId);
    await recorder.flush();
    recorder.forgetPerson(person, person.userId);
    await runtime.writer.drain();
    // What a recording that goes on was still writing of them.
    await recordings.settled(person, person.userId);
    await eraser.connections(person);
    await eraser.queued(person);
    await attachments.removals.run();
  }

  /** What deleted rows leave in the files. A backup that is being made keeps the log from being emptied until it is done. */
  async function overwrite(): Promise<void> {
    await search.compact();
    while (!stopped) {
      try {
        return await scrubDatabase(db.$client);
      } catch (error) {
        if (!(error instanceof ScrubDelayed)) throw error;
        await Bun.sleep(AFTER_TROUBLE_MS);
      }
    }
  }

  async function finish(erasure: ErasureRow): Promise<void> {
    const { id, projectId, environment, userId } = erasure;
    if (userId !== null) {
      await erase({ projectId, environment, userId });
      if (stopped) return;
      await write((unit) => store.erased(unit, id, now()));
    }
    await overwrite();
    if (!stopped) await write((unit) => store.finished(unit, id, now()));
  }

  async function work(): Promise<void> {
    while (!stopped) {
      try {
        const [next] = store.openErasures();
        if (!next) return;
        await finish(next);
      } catch (err) {
        if (stopped) return;
        log.error({ err }, "an erasure could not be finished yet");
        await Bun.sleep(AFTER_TROUBLE_MS);
      }
    }
  }

  function go(): Promise<void> {
    working ??= work().finally(() => {
      working = null;
    });
    return working;
  }

  return {
    digestOf,

    /** The last time that somebody of this name was erased, or is being. */
    latest: (person: Person): ErasureRow | null => store.latestErasure(person, digestOf(person)),

    /** Asked again while it runs: the same erasure. */
    async request(person: Person, author: Author): Promise<ErasureRow> {
      const { projectId, environment, userId } = person;
      const erasure = await write((unit) => {
        const digest = digestOf(person);
        const known = store.latestErasure(person, digest);
        if (known && known.erasedAt === null) return known;
        const row: ErasureRow = {
          ...{ id: ids.uuid(), projectId, environment, digest, userId, requestedAt: now() },
          ...{ erasedAt: null, finishedAt: null },
        };
        store.insertErasure(unit, row);
        bus.publish(unit, "audit", {
          ...author,
          action: "person.erased",
          projectId,
          resourceId: row.id,
          metadata: {},
          at: row.requestedAt,
        });
        return row;
      });
      note(erasure);
      void go();
      return erasure;
    },

    /** Erases whoever the digests of a list mean, within what the database holds. For restored data, without a server. */
    async applyAgain(people: { person: Person; digest: string }[]): Promise<void> {
      for (const { person, digest } of people) {
        const { projectId, environment, userId } = person;
        const row = { id: ids.uuid(), projectId, environment, digest, userId, requestedAt: now() };
        await write((unit) => void store.insertErasure(unit, { ...row, erasedAt: null, finishedAt: null }));
      }
      await go();
    },

    /** Goes on with what the last run did not finish. */
    start(): void {
      const listed = new Set(inMemory ? [] : listedErasures(config.DATA_DIR).map(({ id }) => id));
      for (const erasure of store.openErasures()) if (!listed.has(erasure.id)) note(erasure);
      void go();
    },
    async stop(): Promise<void> {
      stopped = true;
      await working;
    },

    /** Resolves when nothing is under way. */
    settled: async (): Promise<void> => {
      while (working) await working;
    },
  };
}
