import type { Author } from "../../kernel/author.ts";
import type { Keyring } from "../../kernel/crypto/secrets.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { RecordingService } from "./recording.service.ts";
import type { RecordingStore } from "./recording.store.ts";
import type { RecordingRow } from "./recording.table.ts";

const DEFAULT_TTL_SECONDS = 3_600;

type ReplayDeps = {
  store: RecordingStore;
  recordings: RecordingService;
  namesIn: (row: RecordingRow) => ReadonlyMap<string, string>;
};

/** Links to replays. A link works until it expires or the recording is deleted. */
export function replayService({ keyring, now }: Runtime, { store, recordings, namesIn }: ReplayDeps) {
  const tokens = viewTokens(keyring);
  return {
    async share(row: RecordingRow, ttlSeconds: number | undefined, publicUrl: string, author: Author) {
      const expiresAt = now() + (ttlSeconds ?? DEFAULT_TTL_SECONDS) * 1_000;
      await recordings.auditShared(row, expiresAt, author);
      const token = tokens.mint({ recordingId: row.publicId, expiresAt });
      // A browser does not send the fragment of a URL, so the token is in no log of a server or proxy.
      return { url: `${publicUrl}/replay#token=${token}` };
    },

    view(token: string, publicUrl: string) {
      const { recordingId, expiresAt } = tokens.read(token, now());
      const row = store.findPublic(recordingId);
      if (!row) throw new ApiError("SVC_PERMISSION_DENIED", "The recording was deleted.");
      const recording = recordings.present(row);
      const { fileId: compositionId = null } = recording.composition ?? {};
      const files = recording.files.filter(({ status }) => status !== "LOST");
      const fileIds = [...files.map(({ id }) => id), ...(compositionId === null ? [] : [compositionId])];
      return {
        row,
        recording,
        names: Object.fromEntries(namesIn(row)),
        downloads: fileIds.map((fileId) => ({ fileId, ...recordings.signedUrl(fileId, publicUrl, expiresAt) })),
      };
    },
  };
}

type View = { recordingId: string; expiresAt: number };

/** The tokens of links: the recording, the expiry and a signature, in one path segment that the log redacts. */
function viewTokens(keyring: Keyring) {
  return {
    mint({ recordingId, expiresAt }: View): string {
      const content = `${recordingId}.${expiresAt}`;
      return Buffer.from(`${content}.${keyring.digest("recording-view", content)}`).toString("base64url");
    },

    read(token: string, now: number): View {
      const text = Buffer.from(token, "base64url").toString();
      const [recordingId = "", expires = "", signature = ""] = text.split(".");
      if (!keyring.isDigest("recording-view", `${recordingId}.${expires}`, signature))
        throw new ApiError("SVC_PERMISSION_DENIED", "The link was changed or was not issued by this server.");
      const expiresAt = Number(expires);
      if (now >= expiresAt) throw new ApiError("SVC_PERMISSION_DENIED", "The link has expired. Ask for another.");
      return { recordingId, expiresAt };
    },
  };
}
