/** participant: thirty seconds of sound between two people without browsers, while every core is busy; `bin/bench participant [seconds]` */
import { availableParallelism } from "node:os";
import { join as pathOf } from "node:path";
import { startStoa } from "../../src/cli/start/start-stoa.ts";
import { join } from "../../src/rtc-client/participant/participant.ts";
import { Stoa } from "../../web/sdk/server.ts";
import { report } from "./harness/report.ts";

const seconds = Number(process.argv[2] ?? 30);
const FRAME_SAMPLES = 960;
/** Sound that comes later than this after its time is a hole in what browsers play: their buffers grow so far. */
const BUFFER_MS = 200;

const server = await startStoa({ env: { MEDIA_WARM_UP: "true" } });
const stoa = new Stoa(server);
const mint = async (user: string) => (await stoa.mintJoin({ room: "busy", user })).rtc;
const seat = await mint("listener");
const listener = await join(seat.endpoint, seat.token);

const arrivals: { at: number; samples: number }[] = [];
let heard = 0;
listener.on("audio", ({ samples }) => {
  arrivals.push({ at: performance.now(), samples: heard });
  heard += samples.length;
});

// Two for each core, at the same priority as all other processes.
const busy = Array.from({ length: availableParallelism() * 2 }, () =>
  Bun.spawn(["timeout", String(seconds + 60), process.execPath, "-e", "for (;;);"]),
);
const { endpoint, token } = await mint("speaker");
const speaker = Bun.spawn(
  [process.execPath, pathOf(import.meta.dir, "participant/speaker.ts"), endpoint, token, String(seconds)],
  { stdout: "ignore", stderr: "inherit" },
);
await speaker.exited;
for (const child of busy) child.kill();
await listener.close();
await server.stop();

/** Against a clock that began with the earliest of them: what a player that started then would have waited for. */
const offsets = arrivals.map(({ at, samples }) => at - samples / 48);
const earliest = Math.min(...offsets);
const late = offsets.map((offset) => offset - earliest).sort((a, b) => a - b);
const holes = late.filter((ms) => ms > BUFFER_MS).length;

report("participant", [
  { what: "sound heard", value: heard / 48_000, unit: "s", goal: { atLeast: seconds - 1 } },
  { what: "frames that came", value: heard / FRAME_SAMPLES, unit: "" },
  { what: `frames later than ${BUFFER_MS} ms: underruns`, value: holes, unit: "", goal: { atMost: 0 } },
  { what: "lateness p99", value: late[Math.floor(late.length * 0.99)] ?? 0, unit: "ms" },
  { what: "lateness, worst", value: late.at(-1) ?? 0, unit: "ms" },
]);
