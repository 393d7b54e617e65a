import type { Author } from "../../kernel/author.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { RecordingService } from "./recording.service.ts";
import type { RecordingStore } from "./recording.store.ts";
import type { RecordingRow } from "./recording.table.ts";
import { viewTokens } from "./view-token.ts";

const DEFAULT_TTL_SECONDS = 3_600;

/** Recordings for whoever was given a link: until the link expires, or the recording is deleted. */
export function replayService({ keyring, now }: Runtime, store: RecordingStore, recordings: RecordingService) {
  const tokens = viewTokens(keyring);
  return {
    async share(row: RecordingRow, ttlSeconds: number | undefined, publicUrl: string, author: Author) {
      const expiresAt = now() + (ttlSeconds ?? DEFAULT_TTL_SECONDS) * 1_000;
      await recordings.noteShared(row, expiresAt, author);
      const token = tokens.mint({ recordingId: row.publicId, expiresAt });
      // After the hash: the page's address is then in no log, here or in front of us.
      return { url: `${publicUrl}/replay#token=${token}` };
    },

    view(token: string, publicUrl: string) {
      const { recordingId, expiresAt } = tokens.read(token, now());
      const row = store.findPublic(recordingId);
      if (!row) throw new ApiError("SVC_PERMISSION_DENIED", "The recording was deleted.");
      const recording = recordings.show(row);
      const { fileId: composed = null } = recording.composition ?? {};
      const files = recording.files.filter(({ status }) => status !== "LOST");
      const fileIds = [...files.map(({ id }) => id), ...(composed === null ? [] : [composed])];
      return {
        row,
        recording,
        downloads: fileIds.map((fileId) => ({ fileId, ...recordings.addressOf(fileId, publicUrl, expiresAt) })),
      };
    },
  };
}
