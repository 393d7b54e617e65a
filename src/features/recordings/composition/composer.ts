import { rm } from "node:fs/promises";
import type { Runtime } from "../../../kernel/runtime.ts";
import { ApiError } from "../../../protocol/errors.ts";
import type { CompositionState } from "../../../protocol/recordings.ts";
import type { StorageLocations } from "../storage-locations/storage-locations.ts";
import type { RecordingStore } from "../recording.store.ts";
import type { RecordingFileRow, RecordingRow } from "../recording.table.ts";
import type { RecordingFolder } from "../recording-folder.ts";
import { compositionCommand, type Layout } from "./command.ts";
import { type FfmpegRun, findFfmpeg, runFfmpeg } from "./ffmpeg.ts";
import { findFont, type Captions, writeCaptions } from "./captions.ts";
import type { SpeakersEvent } from "./stage.ts";

export type ComposeInput = { layout: Layout; width?: number; height?: number; names?: boolean };

type ComposerDeps = { store: RecordingStore; folder: RecordingFolder; places: StorageLocations };

type Film = Required<Pick<ComposeInput, "layout" | "width" | "height">> &
  Pick<ComposeInput, "names"> & { durationMs: number; output: string; desk: string };

/** One that waits for its turn, or runs. */
type Job = { recordingId: string; run: FfmpegRun | null; cancelled: boolean; ended: Promise<void> };

const DEFAULT_WIDTH = 1_280;
const DEFAULT_HEIGHT = 720;
const EVENTS_AT_ONCE = 1_000;
const MAX_REASON_CHARACTERS = 500;
const BEGUN: CompositionState = { status: "RUNNING", progress: 0, fileId: null, error: null };
const failed = (error: string): CompositionState => ({ status: "FAILED", progress: 0, fileId: null, error });

/** Makes one film of a recording's files, one recording after the other. */
export function createComposer({ ids, log, write }: Runtime, { store, folder, places }: ComposerDeps) {
  const jobs = new Map<string, Job>();
  let last: Promise<void> = Promise.resolve();

  const save = (recordingId: string, composition: CompositionState): Promise<void> =>
    write((unit) => {
      // Forgotten in between, with somebody who was in it: what is being made is not wanted any more.
      if (store.get(recordingId)?.composition) store.update(unit, recordingId, { composition });
    });

  /** What the film is made of: one of the files that its media node lost does not keep the others from it. */
  const filesOf = (recordingId: string): RecordingFileRow[] =>
    store.files(recordingId).filter(({ location }) => location !== "lost");

  async function compose(job: Job, program: string, input: ComposeInput): Promise<void> {
    const row = store.get(job.recordingId);
    if (!row || job.cancelled) return;
    const { width = DEFAULT_WIDTH, height = DEFAULT_HEIGHT } = input;
    const durationMs = Math.max(1, (row.endedAt ?? row.startedAt) - row.startedAt);
    const fileId = ids.uuid();
    const fileName = `${fileId}.mp4`;
    const output = folder.file(row.id, fileName);
    let told = 0;
    const progress = (ms: number) => {
      const share = Math.min(0.99, Math.floor((100 * ms) / durationMs) / 100);
      if (share <= told) return;
      told = share;
      save(row.id, { ...BEGUN, progress: share }).catch((err) => log.warn({ err }, "composition: progress was lost"));
    };
    try {
      const size = { width, height, durationMs };
      await makeFilm(job, program, { ...input, ...size, output, desk: folder.file(row.id, fileId) }, progress);
      const bytes = (await folder.bytes(row.id, fileName)) ?? 0;
      const file: RecordingFileRow = {
        ...{ recordingId: row.id, id: fileId, fileName, identity: "", trackId: "", kind: "video", source: "other" },
        ...{ codec: "h264", mimeType: "video/mp4", offsetMs: 0, durationMs, bytes, width, height },
        ...{ location: "disk", serverName: null },
      };
      const wanted = await write((unit) => {
        if (job.cancelled || !store.get(row.id)?.composition) return false;
        store.saveFile(unit, file);
        store.update(unit, row.id, { composition: { status: "READY", progress: 1, fileId, error: null } });
        return true;
      });
      if (!wanted) await rm(output, { force: true });
    } catch (err) {
      await rm(output, { force: true });
      if (job.cancelled) return;
      log.error({ err, recordingId: row.id }, "composition failed");
      await save(row.id, failed(reasonOf(err, folder.of(row.id))));
    } finally {
      await places.letGo(row.id);
    }
  }

  /** Resolves once the film is whole and the desk, a folder for what is needed only meanwhile, is gone. */
  async function makeFilm(job: Job, program: string, wanted: Film, progress: (ms: number) => void): Promise<void> {
    const { recordingId } = job;
    const { desk } = wanted;
    try {
      const speakers = await speakersOf(store, recordingId);
      const files = [];
      for (const file of filesOf(recordingId)) files.push({ ...file, path: await places.bringHere(file) });
      const names = wanted.names === false ? null : await namesOf(program, desk, files);
      if (job.cancelled) return;
      const parameters = compositionCommand({ ...wanted, files, speakers, names });
      job.run = runFfmpeg(program, parameters, names === null ? folder.of(recordingId) : desk, progress);
      await job.run.done;
    } finally {
      await rm(desk, { recursive: true, force: true });
    }
  }

  async function namesOf(program: string, desk: string, files: readonly RecordingFileRow[]): Promise<Captions | null> {
    const font = await findFont(program);
    if (font !== null)
      return writeCaptions(
        desk,
        font,
        files.filter(({ kind }) => kind === "video"),
      );
    log.warn("composition: no name is drawn, as there is no font, or ffmpeg was made without drawtext");
    return null;
  }

  /** The film that was made of it, if there is one. */
  function composed({ composition }: RecordingRow): RecordingFileRow[] {
    const film = composition?.fileId ? store.file(composition.fileId) : undefined;
    return film ? [film] : [];
  }

  async function cancel(job: Job | undefined): Promise<void> {
    if (!job) return;
    job.cancelled = true;
    job.run?.cancel();
    await job.ended;
  }

  return {
    /** Answers when it is on record; a film made before is replaced once that is. */
    async begin(row: RecordingRow, input: ComposeInput): Promise<void> {
      const program = findFfmpeg();
      if (program === null) throw new ApiError("SVC_COMPOSER_UNAVAILABLE");
      if (row.status === "RECORDING") throw new ApiError("SVC_CONFLICT", "The recording still runs. Stop it first.");
      if (jobs.has(row.id)) throw new ApiError("SVC_CONFLICT", "A composition is being made already.");
      const files = filesOf(row.id);
      if (files.length === 0) throw new ApiError("SVC_CONFLICT", "Nothing was recorded.");
      if (files.some(({ location }) => location === "node"))
        throw new ApiError("SVC_CONFLICT", "Some of its files are still on the media node that wrote them. Try later.");
      const ended = Promise.withResolvers<void>();
      const job: Job = { recordingId: row.id, run: null, cancelled: false, ended: ended.promise };
      jobs.set(row.id, job);
      try {
        const before = composed(row);
        await places.remove(before, (unit) => {
          for (const { id } of before) store.removeFile(unit, row.id, id);
          store.update(unit, row.id, { composition: BEGUN });
        });
      } catch (error) {
        jobs.delete(row.id);
        ended.resolve();
        throw error;
      }
      last = last
        .then(() => compose(job, program, input))
        .catch((err) => log.error({ err, recordingId: row.id }, "composition: its end is not on record"))
        .finally(() => {
          jobs.delete(row.id);
          ended.resolve();
          places.moveOn();
        });
    },

    /** Ends what is being made, and removes what was; nothing of it stays on record. */
    async discard({ id }: RecordingRow): Promise<void> {
      await cancel(jobs.get(id));
      const row = store.get(id);
      if (!row) return;
      const films = composed(row);
      await places.remove(films, (unit) => {
        for (const film of films) store.removeFile(unit, id, film.id);
        store.update(unit, id, { composition: null });
      });
    },

    /** Resolves when nothing reads or writes the recording's files any more. */
    cancel: (recordingId: string): Promise<void> => cancel(jobs.get(recordingId)),
    cancelAll: async (): Promise<void> => void (await Promise.all([...jobs.values()].map(cancel))),

    /** What was being made when the server stopped can be asked for again. */
    async recover(): Promise<void> {
      const left = store.composing();
      if (left.length === 0) return;
      const composition = failed("The server stopped while the film was being made.");
      await write((unit) => {
        for (const { id } of left) store.update(unit, id, { composition });
      });
      for (const { id } of left) await places.letGo(id);
    },
  };
}

/** One line for whoever reads the record: files by their names, as where they lie on the server is nobody's business. */
function reasonOf(error: unknown, directory: string): string {
  const message = error instanceof Error ? error.message : String(error);
  const lines = message
    .replaceAll(`${directory}/`, "")
    // ffmpeg adds addresses in its memory to the names of its parts.
    .replaceAll(/ @ 0x[0-9a-f]+\]/g, "]")
    .split("\n")
    .map((line) => line.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ").trim());
  const reason = lines.filter((line) => line !== "").join("; ");
  // What ffmpeg says last is what it ended of.
  const end = reason.length <= MAX_REASON_CHARACTERS ? reason : `…${reason.slice(1 - MAX_REASON_CHARACTERS)}`;
  return end.toWellFormed();
}

/** A few at a time: of a call of hours there are tens of thousands, and others wait for this thread. */
async function speakersOf(store: RecordingStore, recordingId: string): Promise<SpeakersEvent[]> {
  const changes: SpeakersEvent[] = [];
  for (let afterSeq = -1; ; await Bun.sleep(0)) {
    const events = store.events(recordingId, afterSeq, EVENTS_AT_ONCE);
    for (const { type, atMs, data } of events) {
      if (type !== "speakers.changed") continue;
      changes.push({ atMs, speakers: (data as { speakers?: SpeakersEvent["speakers"] } | null)?.speakers ?? [] });
    }
    const last = events.at(-1);
    if (last === undefined || events.length < EVENTS_AT_ONCE) return changes;
    afterSeq = last.seq;
  }
}
