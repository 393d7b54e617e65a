import { iso } from "../../kernel/time/clock.ts";
import type { Recording, RecordingFile } from "../../protocol/recordings.ts";
import type { FileLocation, RecordingFileRow, RecordingRow } from "./recording.table.ts";

const FILE_STATUS: Record<FileLocation, RecordingFile["status"]> = {
  disk: "READY",
  s3: "READY",
  node: "PENDING",
  lost: "LOST",
};

export function presentRecording(row: RecordingRow, files: readonly RecordingFileRow[], now: number): Recording {
  const { publicId, roomId, roomName, callId, name, audioOnly, status, error, startedAt, endedAt } = row;
  return {
    id: publicId,
    roomId,
    roomName,
    callId,
    name,
    audioOnly,
    status,
    error,
    startedAt: iso(startedAt),
    endedAt: iso(endedAt),
    durationMs: Math.max(0, (endedAt ?? now) - startedAt),
    bytes: files.reduce((total, { bytes }) => total + bytes, 0),
    files: files.map(presentFile),
    encryptedTracks: row.encryptedTracks,
    // Rows of older versions have no reason.
    composition: row.composition && { ...row.composition, error: row.composition.error ?? null },
  };
}

function presentFile(row: RecordingFileRow): RecordingFile {
  const { id, identity, trackId, kind, source, codec, mimeType, offsetMs, durationMs, bytes, width, height } = row;
  const status = FILE_STATUS[row.location];
  return { id, status, identity, trackId, kind, source, codec, mimeType, offsetMs, durationMs, bytes, width, height };
}
