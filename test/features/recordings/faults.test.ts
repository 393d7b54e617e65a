/** The state of a recording after its server has died, or its disk was full. */
import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join as pathOf } from "node:path";
import type { Recording } from "../../../src/protocol/recordings.ts";
import { join, type Participant, tone } from "../../../src/rtc-client/participant/participant.ts";
import { Stoa } from "../../../web/sdk/server.ts";
import { type ServerProcess, startServer } from "../../e2e/sdk/server-process.ts";
import { mountSmall } from "../../ops/machine.ts";
import { decodeAll, encoded, media } from "./ffmpeg.ts";

const folder = mkdtempSync(pathOf(tmpdir(), "stoa-recording-faults-"));
const film = pathOf(folder, "film.ivf");
writeFileSync(
  film,
  encoded(
    "ivf",
    30,
    "-deadline",
    "realtime",
    "-cpu-used",
    "8",
    "-c:v",
    "libvpx",
    "-b:v",
    "800k",
    "-minrate",
    "800k",
    "-g",
    "50",
  ),
);
const servers: ServerProcess[] = [];
const people: Participant[] = [];
let unmount = async () => {};
afterAll(async () => {
  for (const person of people) await person.close().catch(() => {});
  for (const server of servers) await server.close();
  await unmount();
  rmSync(folder, { recursive: true, force: true });
});

/** A recorded room, and a participant in it with video and audio. */
async function recorded(settings: Record<string, string | number> = {}) {
  const server = await startServer(settings);
  servers.push(server);
  const stoa = new Stoa({ url: server.url, apiKey: server.apiKey });
  const { rtc, room } = await stoa.mintJoin({ room: "studio", user: "ada" });
  const { id } = await stoa.recordings.start(room.id, {});
  const ada = await join(rtc.endpoint, rtc.token);
  people.push(ada);
  await ada.publishVideo(film);
  await ada.publishAudio(tone({ hz: 440 }));
  const read = () => stoa.recordings.get(id) as Promise<Recording>;
  return { server, stoa, ada, id, room, read };
}

test("[18] after a kill every file plays as far as it was written, and the recording is INTERRUPTED", async () => {
  const { server, stoa, id, read } = await recorded();
  let before = await read();
  while (before.files.length < 2 || before.files.some(({ durationMs }) => durationMs < 4_000)) {
    await Bun.sleep(200);
    before = await read();
  }
  const killedAt = Date.now();
  await server.restart("SIGKILL");
  const after = await read();
  expect(after.status).toBe("INTERRUPTED");
  expect(after.error).toContain("stopped while it was recording");
  expect(after.files).toHaveLength(2);
  for (const { id: fileId, mimeType, offsetMs, kind } of after.files) {
    const { url } = await stoa.recordings.downloadUrl(id, fileId);
    const path = pathOf(folder, `${fileId}.${mimeType.split("/")[1]}`);
    const whole = Buffer.from(await (await fetch(url)).arrayBuffer());
    writeFileSync(path, whole);
    decodeAll(path);
    const head = await fetch(url, { method: "HEAD" });
    expect(head.headers.get("content-length")).toBe(String(whole.length));
    // Half of it, as if the download had broken off, and the rest.
    const [half, ifRange] = [whole.length >> 1, head.headers.get("etag") ?? ""];
    const rest = await fetch(url, { headers: { range: `bytes=${half}-`, "if-range": ifRange } });
    expect(rest.status).toBe(206);
    expect(Buffer.concat([whole.subarray(0, half), await rest.bytes()]).equals(whole)).toBe(true);
    // A file that was cut off does not say how long it is; its last packet does.
    const times = media("ffprobe", "-show_entries", "packet=pts_time", "-of", "csv=p=0", path).trim().split("\n");
    const playsToMs = Number.parseFloat(times.at(-1) ?? "") * 1_000;
    const told = before.files.find((file) => file.id === fileId)?.durationMs ?? 0;
    // Written at least every second; in the record at least every two.
    expect([kind, playsToMs >= told - 2_000]).toEqual([kind, true]);
    const lost = killedAt - Date.parse(after.startedAt) - offsetMs - playsToMs;
    console.log(`${kind}: plays to within ${Math.round(lost)} ms of the kill`);
  }
}, 120_000);

test("[18] on a full disk the call continues, and the recording fails with the reason", async () => {
  const disk = pathOf(folder, "disk");
  await Bun.$`mkdir ${disk}`.quiet();
  unmount = await mountSmall(disk, "128k");
  const { stoa, ada, room, read } = await recorded({ RECORDING_DIR: disk, RECORDING_MIN_FREE_BYTES: 0 });
  while ((await read()).status === "RECORDING") await Bun.sleep(200);
  const failed = await read();
  expect(failed).toMatchObject({ status: "FAILED" });
  expect(failed.error).toMatch(/ENOSPC|no space/i);
  expect(failed.files.length).toBeGreaterThan(0);
  await ada.sendData("still here");
  expect((await stoa.rooms.get(room.id)) as unknown).toMatchObject({ recording: false, participantCount: 1 });
}, 120_000);
