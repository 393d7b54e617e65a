import type { RemoteTrack } from "../remote-participant.ts";
import type { Section } from "./transport.ts";

/** Hands the page the voices that the server has put on shared sections; a voice may precede its participant. */
export function placeVoices(
  sections: readonly Section[],
  tracks: readonly RemoteTrack[],
  voices: Readonly<Record<string, string>>,
  { subscribed, ended }: { subscribed: (track: RemoteTrack) => void; ended: (track: RemoteTrack) => void },
): void {
  const next = sections.map(({ transceiver }) =>
    tracks.find((one) => one.isVoice && one.participant.identity === voices[transceiver.mid ?? ""]),
  );
  for (const [index, section] of sections.entries()) {
    if (section.trackId === (next[index]?.id ?? null)) continue;
    const left = tracks.find(({ id }) => id === section.trackId);
    section.trackId = null;
    // The track may have got a section of its own in the meantime.
    if (left?.mediaStreamTrack === section.transceiver.receiver.track) ended(left);
  }
  for (const [index, section] of sections.entries()) {
    const track = next[index];
    if (!track || track.mediaStreamTrack) continue;
    section.trackId = track.id;
    track.setMedia(section.transceiver.receiver.track);
    subscribed(track);
  }
}
