import { extname } from "node:path";
import type { Author } from "../../kernel/author.ts";
import { iso } from "../../kernel/time/clock.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { sameSecret } from "../../kernel/crypto/secrets.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { ChatService } from "../chat/chat.ts";
import type { RoomRow } from "../rooms/room.table.ts";
import type { Download } from "../storage/download.ts";
import type { ComposeInput, createComposer } from "./composition/composer.ts";
import type { Hls } from "./hls/hls.ts";
import { FILE_LOST, type StorageLocations } from "./storage-locations/storage-locations.ts";
import { showRecording } from "./recording.show.ts";
import type { RecordingStore } from "./recording.store.ts";
import type { RecordingFileRow, RecordingRow } from "./recording.table.ts";
import type { RecordingFolder } from "./recording-folder.ts";
import type { createActiveRecordings } from "./active-recordings.ts";
import { timelineReader } from "./timeline-entries.ts";

export type RecordingService = ReturnType<typeof recordingService>;

/** By id alone (a session) either environment is found. */
type Owner = { projectId: string; environment?: Tenant["environment"] };
export type NewRecording = { name?: string; audioOnly?: boolean };

/** `url`: in the bucket, where it is then read. */
export type RecordedDownload = Download & { url: string | null };

type Deps = {
  store: RecordingStore;
  folder: RecordingFolder;
  life: ReturnType<typeof createActiveRecordings>;
  /** Where the room's media is, and the call that is on in it. */
  whereabouts: (roomId: string) => { serverName: string | null; callId: string | null };
  said: ChatService["roomMessages"];
  /** Throws when there is no room for more of the project's recordings. */
  requireRoom: (projectId: string) => Promise<void>;
  places: StorageLocations;
  hls: Pick<Hls, "remove">;
  composer: ReturnType<typeof createComposer>;
};

const FILE_PATH = "/v1/recording-files/";
const DAY_MS = 86_400_000;
const REMOVED_AT_ONCE = 20;

export function recordingService(runtime: Runtime, deps: Deps) {
  const { store, folder, places, life, whereabouts, said, requireRoom, hls, composer } = deps;
  const { bus, config, ids, keyring, now, write } = runtime;

  function find(owner: Owner, publicId: string): RecordingRow {
    const row = store.find(owner, publicId);
    if (!row) throw new ApiError("SVC_RECORDING_NOT_FOUND");
    return row;
  }

  const signature = (fileId: string, expires: number) =>
    keyring.digest("recording-url", JSON.stringify([fileId, expires]));

  /** Of a file that whoever asks may read; no longer than they may. */
  function addressOf(fileId: string, publicUrl: string, until = Number.POSITIVE_INFINITY) {
    const expires = Math.min(until, now() + config.STORAGE_DOWNLOAD_URL_TTL_SECONDS * 1_000);
    const query = new URLSearchParams({ expires: String(expires), signature: signature(fileId, expires) });
    return { url: `${publicUrl}${FILE_PATH}${fileId}?${query}`, expiresAt: iso(expires) };
  }

  const show = (row: RecordingRow) => showRecording(row, store.files(row.id), now());

  type Deed = "recording.started" | "recording.stopped" | "recording.deleted" | "recording.shared";
  function audit(unit: Unit, author: Author, action: Deed, row: RecordingRow, metadata: Record<string, unknown>): void {
    const { projectId, environment, publicId: resourceId } = row;
    bus.publish(unit, "audit", { ...author, environment, action, projectId, resourceId, metadata, at: now() });
  }
  const named = ({ roomId, name }: RecordingRow) => ({ roomId, ...(name === null ? {} : { name }) });

  async function remove(row: RecordingRow, author?: Author): Promise<void> {
    await life.stop(row.id);
    await composer.cancel(row.id);
    await places.remove(store.allFiles(row.id), (unit) => {
      store.remove(unit, row.id);
      if (author) audit(unit, author, "recording.deleted", row, named(row));
    });
    await hls.remove(row.id);
    await folder.remove(row.id);
  }

  /** As whoever downloads it would call it. */
  function nameToSaveBy({ recordingId, identity, trackId, source, fileName }: RecordingFileRow): string {
    const { name, roomName } = store.get(recordingId) ?? {};
    const words = trackId === "" ? [name ?? roomName] : [name ?? roomName, identity, source];
    return `${words.join(" ")}${extname(fileName)}`;
  }

  return {
    find,
    show,
    addressOf,
    list: store.list,

    /** Without an author: by itself, as its room records every call. */
    begin(unit: Unit, room: RoomRow, input: NewRecording, author: Author | null): RecordingRow {
      if (room.recording) throw new ApiError("SVC_CONFLICT", "The room is being recorded already.");
      const at = now();
      const { serverName, callId } = whereabouts(room.id);
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
        composition: null,
      };
      life.begin(unit, row, serverName);
      if (author) audit(unit, author, "recording.started", row, named(row));
      return row;
    },

    /** Again for one that has ended: the same answer. */
    async stop(owner: Owner, publicId: string, author: Author): Promise<RecordingRow> {
      const row = find(owner, publicId);
      await life.stop(row.id, (unit) => audit(unit, author, "recording.stopped", row, named(row)));
      return find(owner, publicId);
    },

    /** Answers when it is begun; the record tells the rest. */
    async compose(owner: Owner, publicId: string, input: ComposeInput): Promise<RecordingRow> {
      await requireRoom(find(owner, publicId).projectId);
      await composer.begin(find(owner, publicId), input);
      return find(owner, publicId);
    },

    /** Ends what is being made, and removes what was. */
    discardComposition: (owner: Owner, publicId: string): Promise<void> => composer.discard(find(owner, publicId)),

    remove: (owner: Owner, publicId: string, author: Author): Promise<void> => remove(find(owner, publicId), author),

    /** That somebody was let in is written down before they are. */
    noteShared: (row: RecordingRow, expiresAt: number, author: Author): Promise<void> =>
      write((unit) => audit(unit, author, "recording.shared", row, { ...named(row), expiresAt: iso(expiresAt) })),

    timeline: timelineReader(now, { store, said }),

    downloadUrl(owner: Owner, publicId: string, fileId: string, publicUrl: string): { url: string; expiresAt: string } {
      const row = find(owner, publicId);
      const file = store.file(fileId);
      if (file?.recordingId !== row.id) throw new ApiError("SVC_RECORDING_FILE_NOT_FOUND");
      if (file.location === "lost") throw new ApiError("SVC_RECORDING_FILE_NOT_FOUND", FILE_LOST);
      return addressOf(fileId, publicUrl);
    },

    /** What a signed address leads to. A file that is gone is refused like an address that was changed. */
    async open(fileId: string, query: URLSearchParams): Promise<RecordedDownload> {
      const expiresAt = Number(query.get("expires"));
      const asSigned = String(expiresAt) === query.get("expires") && query.size === 2;
      if (!asSigned || !sameSecret(query.get("signature") ?? "", signature(fileId, expiresAt)))
        throw new ApiError("SVC_PERMISSION_DENIED", "The address was changed or was not issued by this server.");
      if (now() >= expiresAt) throw new ApiError("SVC_PERMISSION_DENIED", "The address has expired. Ask for another.");
      const file = store.file(fileId);
      const filename = file ? nameToSaveBy(file) : "";
      const found = file && (await places.open(file, filename, (expiresAt - now()) / 1_000));
      if (!file || !found) throw new ApiError("SVC_PERMISSION_DENIED", "The recording was deleted.");
      const { size, path = "", url = null } = found;
      const { mimeType } = file;
      const download = { file: Bun.file(path), filename, mimeType, size, sha256: `${fileId}-${size}`, expiresAt };
      return { ...download, url };
    },

    /** Stops what is as long as it may be, and removes what is old. */
    async tidy(): Promise<void> {
      for (const id of life.olderThan(now() - config.RECORDING_MAX_MINUTES * 60_000)) await life.stop(id);
      if (config.RECORDING_RETENTION_DAYS === 0) return;
      const before = now() - config.RECORDING_RETENTION_DAYS * DAY_MS;
      for (;;) {
        const old = store.endedBefore(before, REMOVED_AT_ONCE);
        for (const row of old) await remove(row);
        if (old.length < REMOVED_AT_ONCE) return;
      }
    },
  };
}
