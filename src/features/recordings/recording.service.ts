import { extname } from "node:path";
import type { Author } from "../../kernel/author.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { DAY_MS, iso } from "../../kernel/time/clock.ts";
import { ApiError } from "../../protocol/errors.ts";
import { auditTrail } from "../audit/audit-trail.ts";
import type { ChatService } from "../chat/chat.ts";
import type { RoomRow } from "../rooms/room.table.ts";
import type { Download } from "../storage/download.ts";
import { createDownloadSigner } from "../storage/signed-url.ts";
import type { createActiveRecordings } from "./active-recordings.ts";
import type { createComposer } from "./composition/composer.ts";
import type { Hls } from "./hls/hls.ts";
import { presentRecording } from "./present-recording.ts";
import type { ComposeRecording, StartRecording } from "./recording.schema.ts";
import type { RecordingStore } from "./recording.store.ts";
import type { RecordingFileRow, RecordingRow } from "./recording.table.ts";
import type { RecordingFolder } from "./recording-folder.ts";
import { FILE_LOST, type StorageLocations } from "./storage-locations/storage-locations.ts";
import { timelineReader } from "./timeline-page.ts";

export type RecordingService = ReturnType<typeof recordingService>;

/** Without an environment, recordings of both are found. */
type Owner = { projectId: string; environment?: Tenant["environment"] };
/** `url` is set when the file is in the bucket, from which clients then read it. */
type RecordedDownload = Download & { url: string | null };

type Deps = {
  store: RecordingStore;
  folder: RecordingFolder;
  active: ReturnType<typeof createActiveRecordings>;
  /** The media nodes of the room, and its live call. */
  liveState: (roomId: string) => { serverNames: string[]; callId: string | null };
  roomMessages: ChatService["roomMessages"];
  /** Throws when the project or the disk has no space for more recordings. */
  requireSpace: (projectId: string) => Promise<void>;
  locations: StorageLocations;
  hls: Pick<Hls, "remove">;
  composer: ReturnType<typeof createComposer>;
};

const FILE_PATH = "/v1/recording-files/";
const REMOVED_PER_STEP = 20;

export function recordingService(runtime: Runtime, deps: Deps) {
  const { store, folder, locations, active, liveState, roomMessages, requireSpace, hls, composer } = deps;
  const { config, ids, keyring, now, write } = runtime;

  function find(owner: Owner, publicId: string): RecordingRow {
    const row = store.find(owner, publicId);
    if (!row) throw new ApiError("SVC_RECORDING_NOT_FOUND");
    return row;
  }

  const urls = createDownloadSigner(keyring, now, "recording-url");

  /** A signed URL of a file, valid until `until` at the latest. */
  function signedUrl(fileId: string, publicUrl: string, until = Number.POSITIVE_INFINITY) {
    const expires = Math.min(until, now() + config.STORAGE_DOWNLOAD_URL_TTL_SECONDS * 1_000);
    return { url: `${publicUrl}${FILE_PATH}${fileId}?${urls.query(fileId, expires)}`, expiresAt: iso(expires) };
  }

  const present = (row: RecordingRow) => presentRecording(row, store.files(row.id), now());

  const audit = auditTrail(runtime, "recording", ({ publicId }: RecordingRow) => publicId);
  const auditNames = ({ roomId, name }: RecordingRow) => ({ roomId, ...(name === null ? {} : { name }) });

  async function remove(row: RecordingRow, author?: Author): Promise<void> {
    await active.stop(row.id);
    await composer.cancel(row.id);
    await locations.remove(store.allFiles(row.id), (unit) => {
      store.remove(unit, row.id);
      if (author) audit(unit, author, "recording.deleted", row, auditNames(row));
    });
    await hls.remove(row.id);
    await folder.remove(row.id);
  }

  /** The file name that a browser suggests for the download. */
  function downloadNameOf({ recordingId, identity, trackId, source, fileName }: RecordingFileRow): string {
    const { name, roomName } = store.get(recordingId) ?? {};
    const words = trackId === "" ? [name ?? roomName] : [name ?? roomName, identity, source];
    return `${words.join(" ")}${extname(fileName)}`;
  }

  return {
    find,
    present,
    signedUrl,
    list: store.list,

    /** A recording without an author starts automatically. */
    begin(unit: Unit, room: RoomRow, input: StartRecording, author: Author | null): RecordingRow {
      if (room.encrypted)
        throw new ApiError("SVC_ROOM_ENCRYPTED", "The room is end-to-end encrypted; it cannot be recorded.");
      if (room.recording) throw new ApiError("SVC_CONFLICT", "The room is being recorded already.");
      const at = now();
      const { serverNames, callId } = liveState(room.id);
      const row: RecordingRow = {
        id: ids.uuid(),
        publicId: ids.publicId("recording"),
        projectId: room.projectId,
        environment: room.environment,
        roomId: room.id,
        roomName: room.name,
        callId,
        name: input.name ?? null,
        audioOnly: input.audioOnly ?? false,
        automatic: author === null,
        status: "RECORDING",
        error: null,
        startedAt: at,
        lastSeenAt: at,
        endedAt: null,
        encryptedTracks: 0,
        composition: null,
      };
      active.begin(unit, row, serverNames);
      if (author) audit(unit, author, "recording.started", row, auditNames(row));
      return row;
    },

    /** For a recording that has already ended, the call returns the row unchanged. */
    async stop(owner: Owner, publicId: string, author: Author): Promise<RecordingRow> {
      const row = find(owner, publicId);
      await active.stop(row.id, (unit) => audit(unit, author, "recording.stopped", row, auditNames(row)));
      return find(owner, publicId);
    },

    /** Resolves when the composition is queued; the recording's row shows its progress. */
    async compose(owner: Owner, publicId: string, input: ComposeRecording, author: Author): Promise<RecordingRow> {
      const row = find(owner, publicId);
      await requireSpace(row.projectId);
      await composer.begin(find(owner, publicId), input);
      await write((unit) => audit(unit, author, "recording.composed", row, auditNames(row)));
      return find(owner, publicId);
    },

    /** Cancels a running composition and removes a finished one. */
    async discardComposition(owner: Owner, publicId: string, author: Author): Promise<void> {
      const row = find(owner, publicId);
      await composer.discard(row);
      await write((unit) => audit(unit, author, "recording.composition_deleted", row, auditNames(row)));
    },

    remove: (owner: Owner, publicId: string, author: Author): Promise<void> => remove(find(owner, publicId), author),

    /** The audit entry is on disk before the link is returned. */
    auditShared: (row: RecordingRow, expiresAt: number, author: Author): Promise<void> =>
      write((unit) => audit(unit, author, "recording.shared", row, { ...auditNames(row), expiresAt: iso(expiresAt) })),

    timeline: timelineReader(now, store, roomMessages),

    downloadUrl(owner: Owner, publicId: string, fileId: string, publicUrl: string): { url: string; expiresAt: string } {
      const row = find(owner, publicId);
      const file = store.file(fileId);
      if (file?.recordingId !== row.id) throw new ApiError("SVC_RECORDING_FILE_NOT_FOUND");
      if (file.location === "lost") throw new ApiError("SVC_RECORDING_FILE_NOT_FOUND", FILE_LOST);
      return signedUrl(fileId, publicUrl);
    },

    /** Opens a signed URL. A deleted file is rejected in the same way as an invalid signature. */
    async open(fileId: string, query: URLSearchParams): Promise<RecordedDownload> {
      const expiresAt = urls.check(fileId, query);
      const file = store.file(fileId);
      const filename = file ? downloadNameOf(file) : "";
      const found = file && (await locations.open(file, filename, (expiresAt - now()) / 1_000));
      if (!file || !found) throw new ApiError("SVC_PERMISSION_DENIED", "The recording was deleted.");
      const { size, path = "", url = null } = found;
      const { mimeType } = file;
      const download = { file: Bun.file(path), filename, mimeType, size, sha256: `${fileId}-${size}`, expiresAt };
      return { ...download, url };
    },

    /** Removes recordings past their retention. */
    async prune(): Promise<void> {
      if (config.RECORDING_RETENTION_DAYS === 0) return;
      const before = now() - config.RECORDING_RETENTION_DAYS * DAY_MS;
      for (;;) {
        const old = store.endedBefore(before, REMOVED_PER_STEP);
        for (const row of old) await remove(row);
        if (old.length < REMOVED_PER_STEP) return;
      }
    },
  };
}
