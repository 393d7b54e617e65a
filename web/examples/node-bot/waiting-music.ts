/** Plays hold music while exactly one participant is in the room. */
import { join, tone } from "stoa/participant";
import type { Stoa } from "stoa/server";

const NOTES = [262, 330, 392, 523];

function* melody(): Generator<Int16Array> {
  for (let beat = 0; ; beat++) yield* tone({ hz: NOTES[beat % NOTES.length], seconds: 0.4, volume: 0.2 });
}

export async function playWaitingMusic(stoa: Stoa, room: string) {
  const { rtc } = await stoa.mintJoin({ room, user: "music" });
  const player = await join(rtc.endpoint, rtc.token, { autoSubscribe: false });
  const track = await player.publishAudio(melody());
  const updateMute = () => void track.mute(player.participants.size !== 1);
  player.on("participantJoined", updateMute);
  player.on("participantLeft", updateMute);
  updateMute();
  return player;
}
