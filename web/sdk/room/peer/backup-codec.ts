/** The video of a track in a second codec, sent while viewers need it. Loaded with the first request of the server. */
import type { BackupCodec } from "../../../../src/protocol/signaling.ts";
import { uuid } from "../../uuid.ts";
import type { LocalTrack, SentTrack } from "../local-track.ts";
import type { Transport } from "./transport.ts";

const MAX_HEIGHT = 360;

/** Begins to send the track in the first of these codecs too, or ends that when there is none. */
export async function sendBackup(track: LocalTrack, codecs: readonly BackupCodec[], transport: Transport) {
  const [codec] = codecs;
  const { backup, id, kind, source, mediaStreamTrack } = track;
  const isSent = backup !== null && transport.sends(backup);
  if (isSent === (codec !== undefined) || id === null) return;
  if (isSent) {
    track.backup = null;
    await transport.stopSending(backup);
  } else {
    const scale = Math.max(1, (mediaStreamTrack.getSettings().height ?? 720) / MAX_HEIGHT);
    const sent: SentTrack = {
      kind,
      source,
      codec,
      mediaStreamTrack,
      name: undefined,
      music: false,
      sender: null,
      id: null,
      clientTrackId: uuid(),
      backupOf: id,
      maxBitrate: 500_000,
      encodings: [
        { rid: "q", scaleResolutionDownBy: scale * 2, maxBitrate: 150_000 },
        { rid: "h", scaleResolutionDownBy: scale, maxBitrate: 500_000 },
      ],
    };
    track.backup = sent;
    await transport.send(sent);
  }
  await transport.negotiate();
}
