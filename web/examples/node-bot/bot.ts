/**
 * A bot for Node or Bun that repeats the audio it receives a second delayed and greets each participant with a data
 * message. Set STOA_URL and STOA_API_KEY and pass the name of a room: `node bot.js standup`.
 */
import { type AudioEvent, join } from "stoa/participant";
import { Stoa } from "stoa/server";

const DELAY_FRAMES = 50;

export async function echo(stoa: Stoa, room: string, user = "echo") {
  const { rtc } = await stoa.mintJoin({ room, user });
  const bot = await join(rtc.endpoint, rtc.token, { receive: ["audio"] });
  const received: Int16Array[] = [];
  let wake = () => {};
  bot.on("audio", ({ samples }: AudioEvent) => {
    received.push(samples);
    wake();
  });
  async function* delayed(): AsyncGenerator<Int16Array> {
    for (;;) {
      while (received.length < DELAY_FRAMES) await new Promise<void>((resolve) => (wake = resolve));
      yield received.shift() as Int16Array;
    }
  }
  await bot.publishAudio(delayed(), { sampleRate: 48_000, channels: 1 });
  bot.on("participantJoined", ({ identity }) => void bot.sendData(`Hello, ${identity}`, { to: [identity] }));
  return bot;
}

const { STOA_URL: url, STOA_API_KEY: apiKey } = process.env;
const [, , room] = process.argv;
if (import.meta.main && url && apiKey && room) await echo(new Stoa({ url, apiKey }), room);
