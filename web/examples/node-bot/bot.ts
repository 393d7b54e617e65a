/**
 * A bot for Node or Bun that repeats what it hears, a second later, and says hello in data. Set STOA_URL and
 * STOA_API_KEY, and give the name of a room: `node bot.js standup`.
 */
import { type AudioEvent, join } from "stoa/participant";
import { Stoa } from "stoa/server";

const DELAY_FRAMES = 50;

export async function echo(stoa: Stoa, room: string, user = "echo") {
  const { rtc } = await stoa.mintJoin({ room, user });
  const bot = await join(rtc.endpoint, rtc.token, { receive: ["audio"] });
  const heard: Int16Array[] = [];
  let wake = () => {};
  bot.on("audio", ({ samples }: AudioEvent) => {
    heard.push(samples);
    wake();
  });
  async function* later(): AsyncGenerator<Int16Array> {
    for (;;) {
      while (heard.length < DELAY_FRAMES) await new Promise<void>((resolve) => (wake = resolve));
      yield heard.shift() as Int16Array;
    }
  }
  await bot.publishAudio(later(), { sampleRate: 48_000, channels: 1 });
  bot.on("participantJoined", ({ identity }) => void bot.sendData(`Hello, ${identity}`, { to: [identity] }));
  return bot;
}

const { STOA_URL: url, STOA_API_KEY: apiKey } = process.env;
const [, , room] = process.argv;
if (import.meta.main && url && apiKey && room) await echo(new Stoa({ url, apiKey }), room);
