/** Records a room: every track that is published meanwhile, each into separate files. */
import { mkdirSync } from "node:fs";
import type { RecordedFile, StartRecording } from "../../protocol/media/recording.ts";
import type { MediaEvent } from "../../protocol/media-node.ts";
import type { Publication } from "../tracks/publication.ts";
import { TrackRecorder } from "../tracks/track-recorder.ts";

/** How often the files' sizes are reported, which a crash loses; the files themselves are written more often. */
const PROGRESS_MS = 2_000;

type RecordingEvent = Extract<MediaEvent, { recordingId: string }>;
type WithoutRoom<T> = T extends unknown ? Omit<T, "roomId" | "recordingId"> : never;

export class RoomRecorder {
  readonly #request: StartRecording;
  readonly #host: { emit(event: MediaEvent): void; newId(): string };
  readonly #tracks = new Map<string, TrackRecorder>();
  /** Encrypted tracks, which are not recorded. */
  readonly #omitted = new Set<string>();
  readonly #ending = new Set<Promise<void>>();
  #progressDueMs = 0;
  #failed = false;
  #isReportedSlow = false;

  constructor(request: StartRecording, host: { emit(event: MediaEvent): void; newId(): string }) {
    this.#request = request;
    this.#host = host;
    mkdirSync(request.directory, { recursive: true, mode: 0o700 });
  }

  get recordingId(): string {
    return this.#request.recordingId;
  }

  published(publication: Publication): void {
    if (this.#failed || this.#tracks.has(publication.trackId)) return;
    if (this.#request.audioOnly && publication.kind === "video") return;
    if (publication.encryption) {
      const { identity, trackId } = publication;
      if (!this.#omitted.has(trackId)) this.#emit({ type: "recordingTrackOmitted", identity, trackId });
      this.#omitted.add(trackId);
      return;
    }
    const recorder = new TrackRecorder(publication, {
      directory: this.#request.directory,
      startedAtMs: this.#request.startedAtMs,
      newId: this.#host.newId,
      fileStarted: (file) => this.#emit({ type: "recordingFileStarted", file: { ...file } }),
      fileEnded: (file) => this.#emit({ type: "recordingFileEnded", file: { ...file } }),
      slow: () => this.#slow(),
      failed: (error) => this.#fail(error),
      ...(this.#request.parts && {
        part: (part) => this.#emit({ type: "recordingPart", part }),
        notStreamable: ({ identity, codec }) => this.#emit({ type: "recordingNotStreamable", identity, codec }),
        ...(this.#request.feed && { feed: (feed) => this.#emit({ type: "recordingFeed", feed }) }),
      }),
    });
    this.#tracks.set(publication.trackId, recorder);
  }

  unpublished(publication: Publication): void {
    const recorder = this.#tracks.get(publication.trackId);
    if (!recorder) return;
    this.#tracks.delete(publication.trackId);
    this.#end(recorder);
  }

  /** The control plane was replaced and has missed a part of the live stream, so the stream begins again with new files. */
  beginAgain(publication: Publication): void {
    if (!this.#request.parts || !this.#tracks.has(publication.trackId)) return;
    this.unpublished(publication);
    this.published(publication);
  }

  tick(nowMs: number): void {
    for (const recorder of this.#tracks.values()) recorder.tick(nowMs);
    if (nowMs < this.#progressDueMs) return;
    this.#progressDueMs = nowMs + PROGRESS_MS;
    const files = [...this.#tracks.values()].flatMap(({ record }): RecordedFile[] => (record ? [{ ...record }] : []));
    if (files.length > 0) this.#emit({ type: "recordingProgress", files });
  }

  /** `recordingEnded` follows when every file is complete, except after a failure. */
  stop(): void {
    for (const recorder of this.#tracks.values()) this.#end(recorder);
    this.#tracks.clear();
    void Promise.all(this.#ending).then(() => {
      if (!this.#failed) this.#emit({ type: "recordingEnded" });
    });
  }

  #end(recorder: TrackRecorder): void {
    const ending = recorder.end().finally(() => this.#ending.delete(ending));
    this.#ending.add(ending);
  }

  #slow(): void {
    if (this.#isReportedSlow) return;
    this.#isReportedSlow = true;
    this.#emit({ type: "recordingSlow" });
  }

  #fail(error: Error): void {
    if (this.#failed) return;
    this.#failed = true;
    this.#emit({ type: "recordingFailed", reason: error.message });
    this.stop();
  }

  #emit(event: WithoutRoom<RecordingEvent>): void {
    const { roomId, recordingId } = this.#request;
    this.#host.emit({ roomId, recordingId, ...event } as RecordingEvent);
  }
}
