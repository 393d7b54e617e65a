/** Records one participant's microphone to a WAV file until `stop` is called. */
import { writeFile } from "node:fs/promises";
import { join } from "stoa/participant";
import type { Stoa } from "stoa/server";

export async function recordVoice(stoa: Stoa, room: string, identityToRecord: string, path: string) {
  const { rtc } = await stoa.mintJoin({
    room,
    user: `recorder-of-${identityToRecord}`,
    permissions: { publish: false },
  });
  const recorder = await join(rtc.endpoint, rtc.token, { receive: ["audio"] });
  const chunks: Int16Array[] = [];
  let rate = 48_000;
  recorder.on("audio", ({ identity, samples, sampleRate }) => {
    if (identity !== identityToRecord) return;
    chunks.push(samples);
    rate = sampleRate;
  });
  return {
    /** The length of the recording so far. */
    seconds: () => chunks.reduce((total, { length }) => total + length, 0) / rate,
    async stop() {
      await recorder.close();
      await writeFile(path, wav(chunks, rate));
    },
  };
}

function wav(chunks: Int16Array[], rate: number): Buffer {
  const body = Buffer.concat(
    chunks.map(({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength)),
  );
  const head = Buffer.alloc(44);
  head.write("RIFF", 0);
  head.writeUInt32LE(36 + body.length, 4);
  head.write("WAVEfmt ", 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20); // PCM
  head.writeUInt16LE(1, 22); // one channel
  head.writeUInt32LE(rate, 24);
  head.writeUInt32LE(rate * 2, 28);
  head.writeUInt16LE(2, 32);
  head.writeUInt16LE(16, 34);
  head.write("data", 36);
  head.writeUInt32LE(body.length, 40);
  return Buffer.concat([head, body]);
}
