/** A participant who speaks for so many seconds, in a process of its own: `bun speaker.ts ENDPOINT TOKEN SECONDS`. */
import { join, tone } from "../../../src/rtc-client/participant/participant.ts";

const [endpoint = "", token = "", seconds = "30"] = process.argv.slice(2);
const speaker = await join(endpoint, token);
await (await speaker.publishAudio(tone({ hz: 440, seconds: Number(seconds) }))).done;
await speaker.close();
process.exit(0);
