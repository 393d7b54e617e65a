// runs: beside one
// needs: ffmpeg
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { decodeAll, media, probe } from "../features/recordings/ffmpeg.ts";
import { until } from "../nodes/remote/until.ts";
import type { EncodedPublisher } from "./encoded-publisher.ts";
import { goOnAir, longestHoleMs, play, type Segment, segmentsOf } from "./on-air.ts";
import type { Body } from "./served.ts";
import { Upgradable } from "./upgradable.ts";

const FRAME_MS = { video: 40, audio: 20 };
const host = new Upgradable();
let publisher: EncodedPublisher | null = null;

beforeAll(() => host.prepare());
afterAll(() => host.remove());

/** The initialization and the segments of each track, in order. */
async function tracksOf(playlist: URL, segments: readonly Segment[]): Promise<Uint8Array[]> {
  const bytes = async (uri: string) => (await fetch(new URL(uri, playlist))).bytes();
  const tracks = new Map<string, Uint8Array[]>();
  for (const { map, uri } of segments) {
    const track = tracks.get(map) ?? [await bytes(map)];
    tracks.set(map, track);
    track.push(await bytes(uri));
  }
  return [...tracks.values()].map((parts) => Buffer.concat(parts));
}

describe("a live stream during an upgrade", () => {
  afterEach(async () => {
    publisher?.close();
    await host.end();
  });

  test("continues as HLS for its players without a hole, and its recording is whole", async () => {
    await host.start();
    const { call } = host.server;
    const onAir = await goOnAir(host);
    const { streamId, index, playlistOf } = onAir;
    publisher = onAir.publisher;
    const players = ["video", "audio"].map((kind) => play(playlistOf(kind)));
    const [pictures] = players;
    await until(() => (pictures?.lists.at(-1)?.length ?? 0) >= 3);
    const { code, err } = await host.upgrade();
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect((await publisher?.resume())?.mode).toBe("resumed");
    const shown = pictures?.lists.at(-1)?.length ?? 0;
    await until(() => (pictures?.lists.at(-1)?.length ?? 0) >= shown + 3);
    for (const player of players) await player.stop();
    for (const { failures, lists } of players) {
      expect(failures).toEqual([]);
      // Segments that a player has seen do not change.
      for (const [i, list] of lists.slice(1).entries()) expect(list.slice(0, lists[i]?.length)).toEqual(lists[i] ?? []);
    }
    await call("POST", `/v1/live-streams/${streamId}/end`);
    const { sent } = onAir.publisher;
    for (const kind of ["video", "audio"] as const) {
      const playlist = playlistOf(kind);
      const text = await until(async () => {
        const body = await (await fetch(playlist)).text();
        return body.includes("ENDLIST") && body;
      });
      const segments = segmentsOf(text);
      const tracks = await tracksOf(playlist, segments);
      const frames = tracks.reduce((count, bytes) => count + probe(bytes, "mp4").frames, 0);
      const holeMs = Math.round(longestHoleMs(segments));
      console.log(`${kind}: ${frames} of ${sent[kind]} frames, ${tracks.length} tracks, longest hole ${holeMs} ms`);
      const playedMs = segments.reduce((sum, { durationMs }) => sum + durationMs, 0);
      expect(Math.abs(frames * FRAME_MS[kind] - playedMs)).toBeLessThan(FRAME_MS.video);
      expect(longestHoleMs(segments)).toBeLessThan(50);
    }
    decodeAll(index);
    media("ffprobe", "-show_streams", index);
    const { body: list } = await call("GET", "/v1/recordings");
    const id = (list.data ?? list)[0].id as string;
    const recording = await until(async () => {
      const { body } = await call("GET", `/v1/recordings/${id}`);
      return body.status !== "RECORDING" && body;
    });
    expect(recording).toMatchObject({ status: "READY", error: null });
    mkdirSync(join(host.work, "files"));
    expect(recording.files.map(({ kind }: Body) => kind).sort()).toEqual(["audio", "video"]);
    for (const { id: fileId } of recording.files) {
      const { url } = (await call("GET", `/v1/recordings/${id}/files/${fileId}/download-url`)).body;
      const path = join(host.work, "files", fileId);
      await Bun.write(path, await fetch(url));
      decodeAll(path);
    }
  });
});
