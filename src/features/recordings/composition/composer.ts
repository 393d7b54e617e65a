import { rm } from "node:fs/promises";
import { messageOf } from "../../../kernel/error-message.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { ApiError } from "../../../protocol/errors.ts";
import type { CompositionState } from "../../../protocol/recordings.ts";
import type { ComposeRecording } from "../recording.schema.ts";
import type { RecordingStore } from "../recording.store.ts";
import type { RecordingFileRow, RecordingRow } from "../recording.table.ts";
import type { RecordingFolder } from "../recording-folder.ts";
import type { StorageLocations } from "../storage-locations/storage-locations.ts";
import { type Captions, findFont, writeCaptions } from "./captions.ts";
import { compositionCommand } from "./command.ts";
import { type FfmpegRun, findFfmpeg, runFfmpeg } from "./ffmpeg.ts";
import type { SpeakersEvent } from "./stage.ts";

type ComposerDeps = {
  store: RecordingStore;
  folder: RecordingFolder;
  locations: StorageLocations;
  namesIn: (row: RecordingRow) => ReadonlyMap<string, string>;
};

type Output = Required<Pick<ComposeRecording, "layout" | "width" | "height">> &
  Pick<ComposeRecording, "names"> & { durationMs: number; output: string; workFolder: string };

/** A queued or running composition. */
type Job = { recordingId: string; run: FfmpegRun | null; cancelled: boolean; ended: Promise<void> };

const DEFAULT_WIDTH = 1_280;
const DEFAULT_HEIGHT = 720;
const EVENTS_PER_STEP = 1_000;
const MAX_REASON_CHARACTERS = 500;
const STARTED: CompositionState = { status: "RUNNING", progress: 0, fileId: null, error: null };
const failed = (error: string): CompositionState => ({ status: "FAILED", progress: 0, fileId: null, error });

/** Composes one video from a recording's files, one recording after the other. */
export function createComposer({ ids, log, write }: Runtime, deps: ComposerDeps) {
  const { store, folder, locations, namesIn } = deps;
  const jobs = new Map<string, Job>();
  let last: Promise<void> = Promise.resolve();

  const save = (recordingId: string, composition: CompositionState): Promise<void> =>
    write((unit) => {
      // The composition may have been removed meanwhile by the erasure of a participant.
      if (store.get(recordingId)?.composition) store.update(unit, recordingId, { composition });
    });

  /** A file that its media node lost does not prevent the others from being composed. */
  const filesOf = (recordingId: string): RecordingFileRow[] =>
    store.files(recordingId).filter(({ location }) => location !== "lost");

  async function compose(job: Job, program: string, input: ComposeRecording): Promise<void> {
    const row = store.get(job.recordingId);
    if (!row || job.cancelled) return;
    const { width = DEFAULT_WIDTH, height = DEFAULT_HEIGHT } = input;
    const durationMs = Math.max(1, (row.endedAt ?? row.startedAt) - row.startedAt);
    const fileId = ids.uuid();
    const fileName = `${fileId}.mp4`;
    const output = folder.file(row.id, fileName);
    let reported = 0;
    const progress = (ms: number) => {
      const share = Math.min(0.99, Math.floor((100 * ms) / durationMs) / 100);
      if (share <= reported) return;
      reported = share;
      save(row.id, { ...STARTED, progress: share }).catch((err) =>
        log.warn({ err }, "recordings: composition progress not saved"),
      );
    };
    try {
      const size = { width, height, durationMs };
      const workFolder = folder.file(row.id, fileId);
      await render(job, program, { ...input, ...size, output, workFolder }, progress);
      const bytes = (await folder.bytes(row.id, fileName)) ?? 0;
      const file: RecordingFileRow = {
        recordingId: row.id,
        id: fileId,
        fileName,
        identity: "",
        trackId: "",
        kind: "video",
        source: "other",
        codec: "h264",
        mimeType: "video/mp4",
        offsetMs: 0,
        durationMs,
        bytes,
        width,
        height,
        location: "disk",
        serverName: null,
      };
      const isWanted = await write((unit) => {
        if (job.cancelled || !store.get(row.id)?.composition) return false;
        store.saveFile(unit, file);
        store.update(unit, row.id, { composition: { status: "READY", progress: 1, fileId, error: null } });
        return true;
      });
      if (!isWanted) await rm(output, { force: true });
    } catch (err) {
      await rm(output, { force: true });
      if (job.cancelled) return;
      log.error({ err, recordingId: row.id }, "recordings: composition failed");
      await save(row.id, failed(reasonOf(err, folder.of(row.id))));
    } finally {
      await locations.removeCopies(row.id);
    }
  }

  /** Runs ffmpeg, with a folder for temporary files that is removed afterwards. */
  async function render(job: Job, program: string, output: Output, progress: (ms: number) => void): Promise<void> {
    const { recordingId } = job;
    const { workFolder } = output;
    try {
      const speakers = await speakersOf(store, recordingId);
      const files = [];
      for (const file of filesOf(recordingId)) files.push({ ...file, path: await locations.copyBack(file) });
      const row = store.get(recordingId);
      const captions =
        output.names === false || !row ? null : await captionsOf(program, workFolder, files, namesIn(row));
      if (job.cancelled) return;
      const parameters = compositionCommand({ ...output, files, speakers, captions });
      job.run = runFfmpeg(program, parameters, captions === null ? folder.of(recordingId) : workFolder, progress);
      await job.run.done;
    } finally {
      await rm(workFolder, { recursive: true, force: true });
    }
  }

  async function captionsOf(
    program: string,
    workFolder: string,
    files: readonly RecordingFileRow[],
    names: ReadonlyMap<string, string>,
  ): Promise<Captions | null> {
    const font = await findFont(program);
    if (font !== null)
      return writeCaptions(
        workFolder,
        font,
        files.filter(({ kind }) => kind === "video"),
        names,
      );
    log.warn("recordings: captions unavailable, no font or no drawtext in ffmpeg");
    return null;
  }

  /** The composition, if it is ready. */
  function compositionFiles({ composition }: RecordingRow): RecordingFileRow[] {
    const file = composition?.fileId ? store.file(composition.fileId) : undefined;
    return file ? [file] : [];
  }

  async function cancel(job: Job | undefined): Promise<void> {
    if (!job) return;
    job.cancelled = true;
    job.run?.cancel();
    await job.ended;
  }

  return {
    /** Resolves when the composition is queued. It replaces an earlier one. */
    async begin(row: RecordingRow, input: ComposeRecording): Promise<void> {
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
        const before = compositionFiles(row);
        await locations.remove(before, (unit) => {
          for (const { id } of before) store.removeFile(unit, row.id, id);
          store.update(unit, row.id, { composition: STARTED });
        });
      } catch (error) {
        jobs.delete(row.id);
        ended.resolve();
        throw error;
      }
      last = last
        .then(() => compose(job, program, input))
        .catch((err) => log.error({ err, recordingId: row.id }, "recordings: end of composition not saved"))
        .finally(() => {
          jobs.delete(row.id);
          ended.resolve();
          locations.moveFilesInBackground();
        });
    },

    /** Cancels a running composition and removes a finished one. */
    async discard({ id }: RecordingRow): Promise<void> {
      await cancel(jobs.get(id));
      const row = store.get(id);
      if (!row) return;
      const files = compositionFiles(row);
      await locations.remove(files, (unit) => {
        for (const file of files) store.removeFile(unit, id, file.id);
        store.update(unit, id, { composition: null });
      });
    },

    /** Resolves when the recording's files are not in use any more. */
    cancel: (recordingId: string): Promise<void> => cancel(jobs.get(recordingId)),
    cancelAll: async (): Promise<void> => void (await Promise.all([...jobs.values()].map(cancel))),

    /** Marks compositions that the last process did not finish as failed; they can be requested again. */
    async recover(): Promise<void> {
      const left = store.composing();
      if (left.length === 0) return;
      const composition = failed("The server stopped while it was composing.");
      await write((unit) => {
        for (const { id } of left) store.update(unit, id, { composition });
      });
      for (const { id } of left) await locations.removeCopies(id);
    },
  };
}

/** The error as one line for the record, without paths of this server. */
function reasonOf(error: unknown, directory: string): string {
  const message = messageOf(error);
  const lines = message
    .replaceAll(`${directory}/`, "")
    // ffmpeg adds memory addresses to the names of its components.
    .replaceAll(/ @ 0x[0-9a-f]+\]/g, "]")
    .split("\n")
    .map((line) => line.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ").trim());
  const reason = lines.filter((line) => line !== "").join("; ");
  // The last message of ffmpeg is the reason for the failure.
  const end = reason.length <= MAX_REASON_CHARACTERS ? reason : `…${reason.slice(1 - MAX_REASON_CHARACTERS)}`;
  return end.toWellFormed();
}

/** A long call has tens of thousands of events, so the event loop runs between the steps. */
async function speakersOf(store: RecordingStore, recordingId: string): Promise<SpeakersEvent[]> {
  const changes: SpeakersEvent[] = [];
  for (let afterSeq = -1; ; await Bun.sleep(0)) {
    const events = store.events(recordingId, afterSeq, EVENTS_PER_STEP);
    for (const { type, atMs, data } of events) {
      if (type !== "speakers.changed") continue;
      changes.push({ atMs, speakers: (data as { speakers?: SpeakersEvent["speakers"] } | null)?.speakers ?? [] });
    }
    const last = events.at(-1);
    if (last === undefined || events.length < EVENTS_PER_STEP) return changes;
    afterSeq = last.seq;
  }
}
