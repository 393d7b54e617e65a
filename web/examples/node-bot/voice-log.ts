/** Posts to the room's chat which participant spoke and for how long, based on the loudness of the samples. */
import { join } from "stoa/participant";
import type { Stoa } from "stoa/server";

const LOUDNESS_THRESHOLD = 500;
/** A longer pause ends an utterance. */
const PAUSE_SECONDS = 0.5;

export async function logVoices(stoa: Stoa, room: string) {
  const { rtc, conversation } = await stoa.mintJoin({ room, user: "scribe" });
  const scribe = await join(rtc.endpoint, rtc.token, { receive: ["audio"] });
  const speaking = new Map<string, { seconds: number; silence: number }>();
  scribe.on("audio", ({ identity, samples, sampleRate }) => {
    const seconds = samples.length / sampleRate;
    const loud =
      Math.sqrt(samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length) > LOUDNESS_THRESHOLD;
    const known = speaking.get(identity) ?? { seconds: 0, silence: 0 };
    if (loud) speaking.set(identity, { seconds: known.seconds + seconds, silence: 0 });
    else if (known.seconds > 0) speaking.set(identity, { ...known, silence: known.silence + seconds });
    if (loud || known.seconds === 0 || known.silence + seconds < PAUSE_SECONDS) return;
    speaking.delete(identity);
    const text = `${identity} spoke for ${known.seconds.toFixed(1)} s`;
    void stoa.messages.send(conversation.id, { text, senderId: "scribe" });
  });
  return scribe;
}
