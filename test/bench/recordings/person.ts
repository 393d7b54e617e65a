/** A participant in a browser who flashes and beeps, and what the files of a recording have of that. */
import { join } from "node:path";
import type { Recording, RecordingFile } from "../../../src/protocol/recordings.ts";
import type { VideoCodec } from "../../../web/sdk/room/peer/codecs.ts";
import { joinRoom } from "../../e2e/sdk/page-api.ts";
import type { Scripted } from "../../e2e/sdk/scripted.ts";
import { type Made, publishShow, type ShowOptions } from "../../features/recordings/flash-and-beep.ts";
import { run } from "../harness/cache.ts";
import { median } from "../harness/report.ts";
import type { Reading } from "./read-file.ts";
import type { RecordedRooms } from "./recorded-room.ts";

/** Further from where it was made than this, it is another one. */
const SAME_MS = 450;

export type Person = { identity: string; page: Scripted; made: Made[] };

/** In the page: whether it can send that. What it lists as its capabilities may need a plugin that is not there. */
export async function canSend(codec: VideoCodec): Promise<boolean> {
  const connection = new RTCPeerConnection();
  connection.addTransceiver("video", { direction: "sendonly" });
  const { sdp = "" } = await connection.createOffer();
  connection.close();
  return new RegExp(`^a=rtpmap:\\d+ ${codec}/90000`, "im").test(sdp);
}

export async function enter(rooms: RecordedRooms, page: Scripted, roomId: string, identity: string, how: ShowOptions) {
  await joinRoom(page, await rooms.ticket(roomId, identity));
  await page.evaluate(publishShow, how);
}

/** A moment of the show: where it was made, and how much later the files have it. */
export type Found = { second: number; kind: "video" | "audio"; atMs: number; laterMs: number };

export type Measurement = {
  found: Found[];
  complaints: string[];
  /**
   * The error of durations: the duration that players read compared with the record, and the end of the files compared with the
   * stop.
   */
  durationOffMs: number;
  /** How long before the stop video and audio end. */
  endsMs: { video: number; audio: number };
  codecs: string[];
};

/** Measures the files of a participant; `stoppedAt` is by the machine's clock. */
export async function measure(
  rooms: RecordedRooms,
  recording: Recording,
  person: Person,
  stoppedAt: number,
): Promise<Measurement> {
  const startedAt = Date.parse(recording.startedAt);
  const files = recording.files.filter(({ identity }) => identity === person.identity);
  const complaints: string[] = [];
  const found: Found[] = [];
  let durationOffMs = 0;
  const readings = await Promise.all(
    files.map(async (file) => ({ file, reading: await read(await rooms.download(recording, file), file) })),
  );
  for (const { file, reading } of readings) {
    if ("complaint" in reading) {
      complaints.push(`${file.codec}: ${reading.complaint}`);
      continue;
    }
    durationOffMs = Math.max(durationOffMs, Math.abs(reading.lastsMs - file.durationMs));
    const kind = file.kind === "video" ? "video" : "audio";
    for (const atMs of reading.moments) {
      const [nearest] = person.made
        .map(({ flashAt, beepAt }, second) => ({ second, made: (kind === "video" ? flashAt : beepAt) - startedAt }))
        .sort((a, b) => Math.abs(a.made - atMs) - Math.abs(b.made - atMs));
      if (nearest && Math.abs(nearest.made - atMs) < SAME_MS)
        found.push({ second: nearest.second, kind, atMs, laterMs: atMs - nearest.made });
    }
  }
  const endsMs = { video: 0, audio: 0 };
  for (const kind of ["video", "audio"] as const) {
    const ends = files
      .filter((file) => file.kind === kind)
      .map((file: RecordingFile) => file.offsetMs + file.durationMs);
    endsMs[kind] = stoppedAt - startedAt - Math.max(0, ...ends);
    durationOffMs = Math.max(durationOffMs, Math.abs(endsMs[kind]));
  }
  return {
    found,
    complaints,
    durationOffMs,
    endsMs,
    codecs: files.flatMap(({ codec, kind }) => (kind === "video" ? [codec] : [])),
  };
}

/** Runs in a process of its own, because this process must not be late. */
async function read(path: string, { kind, offsetMs }: RecordingFile): Promise<Reading> {
  const script = join(import.meta.dir, "read-file.ts");
  return JSON.parse(await run([process.execPath, script, path, kind, String(offsetMs)], "/"));
}

/** The difference between video and audio of the same second, for each second. */
export function apart(found: readonly Found[]): number[] {
  const sounds = new Map(found.flatMap(({ second, kind, laterMs }) => (kind === "audio" ? [[second, laterMs]] : [])));
  return found.flatMap(({ second, kind, laterMs }) => {
    const sound = sounds.get(second);
    return kind === "video" && sound !== undefined ? [laterMs - sound] : [];
  });
}

export const laterBy = (found: readonly Found[], kind?: Found["kind"]): number =>
  median(found.filter((one) => kind === undefined || one.kind === kind).map(({ laterMs }) => laterMs));
