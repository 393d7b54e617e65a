/** recording-kill: how much of each file is lost when the server is killed while it records, and whether what is left plays; `bin/bench recording-kill [rounds]` */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join as pathOf } from "node:path";
import type { RecordingFile } from "../../src/protocol/recordings.ts";
import { join, tone } from "../../src/rtc-client/participant/participant.ts";
import type { VideoFrame } from "../../src/rtc-client/participant/video-source.ts";
import { Stoa } from "../../web/sdk/server.ts";
import { startServer } from "../e2e/sdk/server-process.ts";
import { decodeAll, encoded, media } from "../features/recordings/ffmpeg.ts";
import { type Measured, report } from "./harness/report.ts";

const [rounds = "3"] = process.argv.slice(2);
const RECORDED_MS = 6_000;
const LOST_MS = 2_000;
const FRAME_MS = 40;
const FILM_SECONDS = 60;
const RATE = ["-b:v", "800k", "-minrate", "800k", "-maxrate", "800k", "-bufsize", "800k", "-g", "50"];

const folder = mkdtempSync(pathOf(tmpdir(), "stoa-bench-kill-"));
const vp8 = pathOf(folder, "film.ivf");
const REALTIME = ["-deadline", "realtime", "-cpu-used", "8", "-auto-alt-ref", "0"];
writeFileSync(vp8, encoded("ivf", FILM_SECONDS, "-c:v", "libvpx", ...REALTIME, ...RATE));
const X264 = ["-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-pix_fmt", "yuv420p"];
const h264 = encoded(
  "h264",
  FILM_SECONDS,
  ...X264,
  "-profile:v",
  "baseline",
  "-bsf:v",
  "h264_metadata=aud=insert",
  ...RATE,
);

/** The frames of the file, each of which begins with a delimiter. */
async function* frames(): AsyncGenerator<VideoFrame> {
  const film = Buffer.from(h264);
  const DELIMITER = Buffer.from([0, 0, 0, 1, 9]);
  for (let at = 0, i = 0; at < film.length; i++) {
    const next = film.indexOf(DELIMITER, at + DELIMITER.length);
    const end = next < 0 ? film.length : next;
    yield { data: film.subarray(at, end), keyframe: i % 50 === 0, timestampMs: i * FRAME_MS };
    at = end;
  }
}

const lostMs: Record<string, number> = {};
let notInterrupted = 0;
const complaints: string[] = [];

/** How far the file plays: a file that was cut off does not state its length, so the last packet counts. */
async function playsToMs(stoa: Stoa, recordingId: string, { id, mimeType, codec }: RecordingFile): Promise<number> {
  const { url } = await stoa.recordings.downloadUrl(recordingId, id);
  const path = pathOf(folder, `${id}.${mimeType.split("/")[1]}`);
  writeFileSync(path, new Uint8Array(await (await fetch(url)).arrayBuffer()));
  try {
    decodeAll(path);
    const times = media("ffprobe", "-show_entries", "packet=pts_time", "-of", "csv=p=0", path).trim().split("\n");
    return Number.parseFloat(times.at(-1) ?? "") * 1_000;
  } catch (error) {
    complaints.push(`${codec}: ${(error as Error).message.slice(0, 300)}`);
    return 0;
  }
}

for (let round = 0; round < Number(rounds); round++) {
  const server = await startServer();
  const stoa = new Stoa({ url: server.url, apiKey: server.apiKey });
  const { room } = await stoa.mintJoin({ room: "studio", user: "ada" });
  const { id } = await stoa.recordings.start(room.id, {});
  const people = [];
  for (const codec of ["VP8", "H264"] as const) {
    const { rtc } = await stoa.mintJoin({ room: "studio", user: codec });
    const person = await join(rtc.endpoint, rtc.token);
    people.push(person);
    await person.publishVideo(codec === "VP8" ? vp8 : frames(), { codec });
    await person.publishAudio(tone({ hz: 440 }));
  }
  // This is not a multiple of any write interval.
  await Bun.sleep(RECORDED_MS + round * 370);
  const killedAt = Date.now();
  await server.restart("SIGKILL");
  const after = await stoa.recordings.get(id);
  if (after.status !== "INTERRUPTED") notInterrupted++;
  if (after.files.length !== 4) complaints.push(`${after.files.length} files`);
  for (const file of after.files) {
    const lost = killedAt - Date.parse(after.startedAt) - file.offsetMs - (await playsToMs(stoa, id, file));
    lostMs[file.codec] = Math.max(lostMs[file.codec] ?? 0, lost);
  }
  for (const person of people) await person.close().catch(() => {});
  await server.close();
}
rmSync(folder, { recursive: true });

const figures: Measured[] = [
  { what: "records that do not say INTERRUPTED", value: notInterrupted, unit: "", goal: { atMost: 0 } },
  { what: "files that do not play", value: complaints.length, unit: "", goal: { atMost: 0 } },
  ...Object.entries(lostMs).map(
    ([codec, value]): Measured => ({ what: `lost of ${codec}, at most`, value, unit: "ms", goal: { atMost: LOST_MS } }),
  ),
];
report("recording-kill", figures, { rounds: Number(rounds), complaints });
process.exit();
