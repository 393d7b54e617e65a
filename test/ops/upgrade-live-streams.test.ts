// runs: beside one
// needs: ffmpeg
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { decodeAll, media, probe } from "../features/recordings/ffmpeg.ts";
import { until } from "../nodes/remote/until.ts";
import { type EncodedPublisher, publishEncoded } from "./encoded-publisher.ts";
import type { Body } from "./served.ts";
import { Upgradable } from "./upgradable.ts";

const FRAME_MS = { video: 40, audio: 20 };
const host = new Upgradable();
let publisher: EncodedPublisher | null = null;

beforeAll(() => host.prepare());
afterAll(() => host.remove());

type Segment = { uri: string; atMs: number; durationMs: number; discontinuity: boolean; map: string };

function segmentsOf(playlist: string): Segment[] {
  const segments: Segment[] = [];
  let [map, atMs, durationMs, discontinuity] = ["", 0, 0, false];
  for (const line of playlist.split("\n")) {
    const [name, value = ""] = line.split(/:(.*)/);
    if (name === "#EXT-X-MAP") map = /URI="([^"]+)"/.exec(value)?.[1] ?? "";
    else if (name === "#EXT-X-DISCONTINUITY") discontinuity = true;
    else if (name === "#EXT-X-PROGRAM-DATE-TIME") atMs = Date.parse(value);
    else if (name === "#EXTINF") durationMs = Number.parseFloat(value) * 1_000;
    else if (line !== "" && !line.startsWith("#")) {
      segments.push({ uri: line, atMs, durationMs, discontinuity, map });
      discontinuity = false;
    }
  }
  return segments;
}

/** A live stream on air, and its HLS as a viewer opens it. */
async function onAir() {
  const { call, url } = host.server;
  const { body: stream } = await call("POST", "/v1/live-streams", { title: "show", hostIdentity: "ada", record: true });
  publisher = await publishEncoded(url, await host.token(stream.roomId, "ada"));
  await call("POST", `/v1/live-streams/${stream.id}/start`);
  const { body: viewer } = await call("POST", `/v1/live-streams/${stream.id}/viewer-tokens`, { identity: "grace" });
  const index = `${url}/v1/live-streams/${stream.id}/hls/index.m3u8?token=${viewer.rtc.token}`;
  const main = await until(async () => {
    const response = await fetch(index);
    const text = await response.text();
    return response.ok && text.includes("RESOLUTION") && text.includes("AUDIO=") && text;
  });
  const [, path = ""] = /^(\S+)\/video\.m3u8$/m.exec(main) ?? [];
  const playlistOf = (kind: string) => new URL(`${path}/${kind}.m3u8`, index);
  return { streamId: stream.id as string, index, playlistOf };
}

/** Asks for each next part as soon as it is announced, as players do. Returns what was not answered. */
function play(playlist: URL) {
  const failures: string[] = [];
  const lists: Segment[][] = [];
  let isStopped = false;
  const playing = (async () => {
    let query = "";
    while (!isStopped) {
      const answer = await fetch(`${playlist.origin}${playlist.pathname}${query}`).catch((error: Error) => error);
      if (answer instanceof Error || !answer.ok) {
        failures.push(answer instanceof Error ? answer.message : `${answer.status} ${await answer.text()}`);
        await Bun.sleep(100);
        continue;
      }
      const text = await answer.text();
      lists.push(segmentsOf(text));
      const [, index, part] = /PRELOAD-HINT:TYPE=PART,URI="\S+-(\d+)\.(\d+)\.m4s"/.exec(text) ?? [];
      query = index === undefined ? "" : `?_HLS_msn=${index}&_HLS_part=${part}`;
    }
  })();
  return {
    failures,
    lists,
    async stop() {
      isStopped = true;
      await playing;
    },
  };
}

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

/** The longest gap in the media between two segments. */
const longestHoleMs = (segments: readonly Segment[]) =>
  Math.max(...segments.slice(1).map(({ atMs }, i) => atMs - (segments[i]?.atMs ?? 0) - (segments[i]?.durationMs ?? 0)));

describe("a live stream during an upgrade", () => {
  afterEach(async () => {
    publisher?.close();
    await host.end();
  });

  test("continues as HLS for its players without a hole, and its recording is whole", async () => {
    await host.start();
    const { call } = host.server;
    const { streamId, index, playlistOf } = await onAir();
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
    const sent = { video: 0, audio: 0, ...publisher?.sent };
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
