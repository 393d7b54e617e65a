import { afterAll, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { createHls } from "../../../src/features/recordings/hls/hls.ts";
import { mediaPlaylist, type Segment } from "../../../src/features/recordings/hls/playlist.ts";
import { recordingFolder } from "../../../src/features/recordings/recording-folder.ts";
import type { MediaEvent } from "../../../src/protocol/media-node.ts";
import { CmafParts, type Piece } from "../../../src/sfu/recording/cmaf-parts.ts";
import { formatOf, framesOf } from "../../../src/sfu/recording/media-file.ts";
import { spanOf } from "../../../src/sfu/wire/frames/frame.ts";
import { opusDurationMs } from "../../../src/sfu/wire/frames/opus-frames.ts";
import { rtcServer, settled } from "../../harness/rtc.ts";
import { encoded, probe } from "./ffmpeg.ts";
import { av1, h264, opus, type SentFrame } from "./packetizers.ts";

const SECONDS = 10;
const PICTURES = h264(
  encoded("h264", SECONDS, "-c:v", "libx264", "-pix_fmt", "yuv420p", "-profile:v", "baseline", "-g", "25"),
);
const SOUND = opus(encoded("opus", SECONDS, "-c:a", "libopus"));

/** The pieces that a recorder makes of these frames. */
function piecesOf(
  codec: "H264" | "AV1" | "opus",
  sent: readonly SentFrame[],
  clockRate: number,
): { codecs: string; pieces: Piece[] } {
  const frames = framesOf(codec);
  const pieces: Piece[] = [];
  let parts: CmafParts | null = null;
  for (const { payloads, timestamp } of sent) {
    const made = frames?.assemble(payloads.map(spanOf));
    if (!made || !frames) throw new Error("the frame is not whole");
    const frame = { ...made, timestamp };
    const format = formatOf(frames, frame);
    if (!format) throw new Error("no format");
    parts ??= new CmafParts(format, (piece) => pieces.push(piece));
    const durationMs = codec === "opus" ? opusDurationMs(frame.spans) : 40;
    parts.add(frame.spans, (timestamp * 1_000) / clockRate, durationMs, frame.keyframe);
  }
  parts?.end();
  return { codecs: parts?.codecs ?? "", pieces };
}
const VIDEO = piecesOf("H264", PICTURES, 90_000);
const AUDIO = piecesOf("opus", SOUND, 48_000);

const server = await rtcServer();
afterAll(server.close);
const { clock, key, node } = server;
const call = (method: string, path: string, body?: object) => server.call(method, path, { key, body });
const get = (url: string) => server.app.handle(new Request(new URL(url, "http://localhost")));

/** A stream on air that is being recorded, its host in the room, and a viewer's way to its HLS. */
async function onAir() {
  const made = await call("POST", "/v1/live-streams", { title: "show", hostIdentity: "ada", record: true });
  const streamId = String(made.body.id);
  const roomId = String(made.body.roomId);
  const ada = await server.joined(roomId, "ada");
  await settled();
  const running = () => node.calls.find((line) => line.startsWith(`startRecording ${roomId}`));
  const behindTheScenes = running();
  await call("POST", `/v1/live-streams/${streamId}/start`);
  while (!running()) await settled();
  const recordingId = running()?.split(" ")[2] ?? "";
  const viewer = await call("POST", `/v1/live-streams/${streamId}/viewer-tokens`, { identity: "grace" });
  const { token } = viewer.body.rtc as { token: string };
  const index = `/v1/live-streams/${streamId}/hls/index.m3u8?token=${token}`;
  const send = (kind: "video" | "audio", pieces: readonly Piece[], change: object = {}) => {
    const about = {
      fileId: `${kind}-1`,
      identity: "ada",
      trackId: kind,
      kind,
      source: kind === "video" ? "camera" : "microphone",
      codecs: (kind === "video" ? VIDEO : AUDIO).codecs,
      width: 320,
      height: 240,
      ...change,
    };
    for (const piece of pieces)
      node.emit({ type: "recordingPart", roomId, recordingId, part: { ...about, ...piece } } as MediaEvent);
  };
  return { streamId, roomId, recordingId, token, index, ada, send, behindTheScenes };
}

/** The address of what a playlist names. */
const resolved = (playlist: string, name: string) => new URL(name, new URL(playlist, "http://localhost")).pathname;
/** The path of the segments in a playlist, whose key is not that of the playlist. */
const folderOf = (playlist: string, text: string) => resolved(playlist, /(\.\.\/\w+)\/\w+-/.exec(text)?.[1] ?? "");

/** Everything that a playlist names, with its bytes in order. */
async function fetched(url: string): Promise<{ text: string; bytes: Uint8Array }> {
  const text = await (await get(url)).text();
  const names = [...text.matchAll(/URI="([^"]+\.mp4)"|^(\S+\.m4s)$/gm)].map(
    ([, head, segment]) => head ?? segment ?? "",
  );
  const parts = await Promise.all(
    names.map(async (name) => new Uint8Array(await (await get(resolved(url, name))).arrayBuffer())),
  );
  return { text, bytes: Buffer.concat(parts) };
}

describe("[18] a live stream as HLS", () => {
  test("has parts at once, segments that any decoder plays, and an end", async () => {
    const { index, streamId, recordingId, send, behindTheScenes } = await onAir();
    expect(behindTheScenes).toBeUndefined();
    send("video", VIDEO.pieces);
    send("audio", AUDIO.pieces);
    const opened = await get(index);
    expect([opened.status, opened.headers.get("content-type"), opened.headers.get("cache-control")]).toEqual([
      200,
      "application/vnd.apple.mpegurl",
      "private, no-store",
    ]);
    const main = await opened.text();
    expect(main).toContain('RESOLUTION=320x240,AUDIO="sound"');
    expect(main).toMatch(/CODECS="avc1\.42\w{4},opus"/);
    const [, path = ""] = /^([\w-]+)\/video\.m3u8$/m.exec(main) ?? [];
    const base = `/v1/live-streams/${streamId}/hls/${path}`;
    const live = await (await get(`${base}/video.m3u8`)).text();
    expect(live).toContain("CAN-BLOCK-RELOAD=YES");
    expect(live).toMatch(/#EXT-X-PART:DURATION=0\.\d+,URI="\.\.\/\w+\/video-\d+\.0\.m4s",INDEPENDENT=YES/);
    expect(live).not.toContain("ENDLIST");
    const part = await get(`${folderOf(`${base}/video.m3u8`, live)}/video-1.0.m4s`);
    expect([part.status, part.headers.get("cache-control")]).toEqual([200, "public, max-age=31536000, immutable"]);
    // A cache keeps what a page may read apart from what a player without an origin was told.
    expect(part.headers.get("vary")).toBe("origin");
    expect(new TextDecoder().decode((await part.arrayBuffer()).slice(4, 8))).toBe("moof");

    const id = ((await call("GET", "/v1/recordings?status=RECORDING")).body as unknown as { id: string }[])[0]?.id;
    await call("POST", `/v1/recordings/${id}/stop`);
    const pictures = await fetched(`${base}/video.m3u8`);
    expect(pictures.text).toEndWith("#EXT-X-ENDLIST\n");
    expect(probe(pictures.bytes, "mp4")).toMatchObject({ codec: "h264", frames: SECONDS * 25, width: 320 });
    const sound = await fetched(`${base}/audio.m3u8`);
    expect(probe(sound.bytes, "mp4")).toMatchObject({ codec: "opus", frames: SOUND.length });
    const folder = join(server.runtime.config.DATA_DIR, "recordings", recordingId, "hls");
    expect(existsSync(folder)).toBe(true);
    clock.advance(300_000);
    while (existsSync(folder)) await Bun.sleep(5);
    expect((await get(`${base}/video.m3u8`)).status).toBe(404);
  });

  /** A stream whose first segment has been sent; `base` is the address of its playlists. */
  async function withOneSegment() {
    const { index, streamId, send } = await onAir();
    const waiting = get(index);
    send("video", VIDEO.pieces.slice(0, 3));
    send("audio", AUDIO.pieces.slice(0, 3));
    const [, path = ""] = /^([\w-]+)\/video\.m3u8$/m.exec(await (await waiting).text()) ?? [];
    return { base: `/v1/live-streams/${streamId}/hls/${path}`, send };
  }

  test("a blocking request for a playlist or a part is answered when it exists", async () => {
    const { base, send } = await withOneSegment();
    const folder = folderOf(`${base}/video.m3u8`, await (await get(`${base}/video.m3u8`)).text());
    const list = get(`${base}/video.m3u8?_HLS_msn=1&_HLS_part=0`);
    const next = get(`${folder}/video-1.0.m4s`);
    expect(await Promise.race([list, Bun.sleep(20).then(() => "blocked")])).toBe("blocked");
    send("video", VIDEO.pieces.slice(3, 4));
    expect(await (await list).text()).toContain('/video-1.0.m4s"');
    expect((await next).status).toBe(200);
    expect((await get(`${base}/video.m3u8?_HLS_msn=9`)).status).toBe(400);
    // A request for an unannounced segment is answered at once: the clock of this test stands still.
    expect((await get(`${folder}/video-999999.m4s`)).status).toBe(404);
    expect((await get(`${folder}/video-init-1.mp4`)).status).toBe(404);
    // A viewer's key opens playlists alone, and that of the segments opens no playlist.
    expect((await get(`${base}/video-0.m4s`)).status).toBe(404);
    expect((await get(`${folder}/video.m3u8`)).status).toBe(404);
    expect((await get(`${base}/../../etc/passwd`)).status).toBe(404);
  });

  test("a request that waits during an upgrade is asked to come again, which the newer process answers", async () => {
    const { base } = await withOneSegment();
    const next = get(`${base}/video.m3u8?_HLS_msn=1&_HLS_part=0`);
    const another = await onAir();
    const first = get(another.index);
    server.services.recordings.hls.handOver();
    const told = await Promise.all([next, first]);
    expect(told.map(({ status, headers }) => [status, headers.get("location"), headers.get("cache-control")])).toEqual([
      [307, "video.m3u8?_HLS_msn=1&_HLS_part=0", "no-store"],
      [307, `index.m3u8?token=${another.token}`, "no-store"],
    ]);
    expect((await get(`${base}/video.m3u8`)).status).toBe(200);
  });

  test("carries AV1 unchanged, with a minute of rewind", async () => {
    const encoder = [
      "-c:v",
      "libaom-av1",
      "-cpu-used",
      "8",
      "-usage",
      "realtime",
      "-b:v",
      "200k",
      "-pix_fmt",
      "yuv420p",
    ];
    const sent = av1(encoded("ivf", 2, ...encoder, "-g", "25", "-keyint_min", "25"));
    // The same two seconds again and again, one after the other: a stream of eighty.
    const long = Array.from({ length: 40 }, (_, round) =>
      sent.map(({ payloads, timestamp }) => ({ payloads, timestamp: timestamp + round * 2 * 90_000 })),
    ).flat();
    const { codecs, pieces } = piecesOf("AV1", long, 90_000);
    const { index, streamId, send } = await onAir();
    send("video", pieces, { codecs });
    send("audio", AUDIO.pieces.slice(0, 5));
    const main = await (await get(index)).text();
    expect(main).toMatch(/CODECS="av01\.0\.\d\dM\.08,opus"/);
    const [, path = ""] = /^([\w-]+)\/video\.m3u8$/m.exec(main) ?? [];
    const url = `/v1/live-streams/${streamId}/hls/${path}/video.m3u8`;
    const list = await (await get(url)).text();
    expect(list).not.toContain("ENDLIST");
    const lengths = [...list.matchAll(/#EXTINF:([\d.]+),/g)].map(([, seconds]) => Number(seconds));
    expect(lengths.reduce((total, seconds) => total + seconds, 0)).toBeGreaterThan(60);
    // From its first segment, long since on disk alone, to the newest.
    const { bytes } = await fetched(url);
    expect(probe(bytes, "mp4")).toMatchObject({ codec: "av1", width: 320, height: 240 });
    // Over a socket it is the whole answer, which a cache keeps and every player takes.
    const served = Bun.serve({ port: 0, fetch: (request) => server.app.handle(request) });
    const oldest = await fetch(new URL(`${folderOf(url, list)}/video-0.m4s`, served.url));
    expect([oldest.status, oldest.headers.get("content-range")]).toEqual([200, null]);
    expect(new TextDecoder().decode((await oldest.arrayBuffer()).slice(4, 8))).toBe("moof");
    await served.stop(true);
  }, 60_000);

  test("continues with another track of the same host, and has no tracks of others", async () => {
    const { index, streamId, roomId, recordingId, send } = await onAir();
    send("audio", AUDIO.pieces.slice(0, 5));
    send("video", VIDEO.pieces.slice(0, 9));
    send("video", VIDEO.pieces.slice(0, 9), { identity: "bob", fileId: "of-bob" });
    const [, path = ""] = /^([\w-]+)\/video\.m3u8$/m.exec(await (await get(index)).text()) ?? [];
    const url = `/v1/live-streams/${streamId}/hls/${path}/video.m3u8`;
    const before = await (await get(url)).text();
    expect(before).not.toContain("DISCONTINUITY");
    const file = { fileId: "video-1" };
    node.emit({ type: "recordingFileEnded", roomId, recordingId, file } as unknown as MediaEvent);
    send("video", VIDEO.pieces.slice(0, 9), { fileId: "video-2" });
    const { text, bytes } = await fetched(url);
    expect(text.match(/#EXT-X-DISCONTINUITY/g)).toHaveLength(1);
    expect(text.match(/#EXT-X-MAP:URI="\S+\/video-init-\d\.mp4"/g)).toHaveLength(2);
    expect(bytes.length).toBeGreaterThan(0);
  });

  test("is refused with the reason: not started, not recorded, unsupported codec, no media, no token", async () => {
    const made = await call("POST", "/v1/live-streams", { title: "later", hostIdentity: "ada" });
    const path = `/v1/live-streams/${made.body.id}`;
    const viewer = await call("POST", `${path}/viewer-tokens`, { identity: "grace" });
    const { token } = viewer.body.rtc as { token: string };
    const reason = async (url: string) => (await (await get(url)).json()) as { code: string; message: string };
    const index = `${path}/hls/index.m3u8?token=${token}`;
    expect(await reason(index)).toMatchObject({
      code: "SVC_HLS_UNAVAILABLE",
      message: "The live stream has not started.",
    });
    await call("POST", `${path}/start`);
    expect((await reason(index)).message).toContain("not being recorded");
    expect((await get(`${path}/hls/index.m3u8?token=nothing`)).status).toBe(401);
    const other = await onAir();
    expect((await get(index.replace(String(made.body.id), other.streamId))).status).toBe(404);
    const { roomId, recordingId } = other;
    node.emit({ type: "recordingNotStreamable", roomId, recordingId, identity: "ada", codec: "vp8" });
    other.send("audio", AUDIO.pieces.slice(0, 1));
    expect(await reason(other.index)).toMatchObject({ code: "SVC_HLS_UNAVAILABLE" });
    expect((await reason(other.index)).message).toContain("sends VP8");
    node.emit({ type: "recordingNotStreamable", roomId, recordingId, identity: "ada", codec: "vp9" });
    expect((await reason(other.index)).message).toContain("sends VP9, which HLS does not support");
    const silent = await onAir();
    let answered = false;
    const asked = reason(silent.index).finally(() => {
      answered = true;
    });
    while (!answered) {
      clock.advance(100);
      await settled();
    }
    expect((await asked).message).toContain("No media is published yet");
    await call("DELETE", `/v1/live-streams/${silent.streamId}/viewers/grace`);
    expect((await get(silent.index)).status).toBe(401);
  });

  test("a viewer who is removed gets no playlist and no later segment, and the others keep watching", async () => {
    const { index, streamId, send } = await onAir();
    const eve = await call("POST", `/v1/live-streams/${streamId}/viewer-tokens`, { identity: "eve" });
    const { token, tokenId } = eve.body.rtc as { token: string; tokenId: string };
    send("video", VIDEO.pieces.slice(0, 9));
    send("audio", AUDIO.pieces.slice(0, 9));
    const playlistOf = async (address: string) => {
      const [, path = ""] = /^([\w-]+)\/video\.m3u8$/m.exec(await (await get(address)).text()) ?? [];
      return `/v1/live-streams/${streamId}/hls/${path}/video.m3u8`;
    };
    const [grace, hers] = [await playlistOf(index), await playlistOf(index.replace(/token=.*/, `token=${token}`))];
    const known = folderOf(hers, await (await get(hers)).text());
    // She waits for the next segment while she is removed.
    const last = (await (await get(hers)).text()).match(/#EXTINF/g)?.length ?? 0;
    const waiting = get(`${hers}?_HLS_msn=${last + 1}`);
    clock.advance(1_000);
    await call("DELETE", `/v1/live-streams/${streamId}/viewers/eve`);
    send("video", VIDEO.pieces.slice(9));
    send("audio", AUDIO.pieces.slice(9));
    expect([(await waiting).status, (await get(hers)).status]).toEqual([404, 404]);
    const list = await (await get(grace)).text();
    const names = [...list.matchAll(/^(\S+\.m4s)$/gm)].map(([, name = ""]) => resolved(grace, name));
    expect((await Promise.all(names.map(async (name) => (await get(name)).status))).every((one) => one === 200)).toBe(
      true,
    );
    const [newest = ""] = names.slice(-1);
    expect(newest).not.toStartWith(known);
    expect((await get(newest.replace(/^.*\//, `${known}/`))).status).toBe(404);
    expect(JSON.stringify([hers, list])).not.toMatch(new RegExp(`eve"|${tokenId}`));
  });

  test("a viewer who is removed while its first request waits gets no playlist", async () => {
    const { index, streamId, send } = await onAir();
    send("video", VIDEO.pieces.slice(0, 9));
    // Without sound, every first request waits for some.
    const waiting = get(index);
    await settled();
    clock.advance(1_000);
    await call("DELETE", `/v1/live-streams/${streamId}/viewers/grace`);
    clock.advance(1_000);
    const answer = await waiting;
    expect(await answer.text()).toContain("SVC_TOKEN_REVOKED");
    expect(answer.status).toBe(401);
  });

  test("ends with the live stream, which then has a replay with its chat", async () => {
    const { streamId, roomId, send } = await onAir();
    send("video", VIDEO.pieces.slice(0, 3));
    await call("POST", `/v1/live-streams/${streamId}/end`);
    const list = async () =>
      (await call("GET", `/v1/recordings?roomId=${roomId}`)).body as unknown as { id: string; status: string }[];
    while ((await list())[0]?.status !== "READY") await settled();
    const [recording] = await list();
    expect((await call("POST", `/v1/recordings/${recording?.id}/view-tokens`, {})).status).toBe(201);
  });
});

test("[18] a delta update leaves out the segments that a player already has", () => {
  const segments: Segment[] = Array.from({ length: 40 }, (_, index) => ({
    atMs: index * 4_000,
    durationMs: 4_000,
    head: 0,
    discontinuity: false,
    complete: true,
    at: "",
    parts: index > 36 ? [{ durationMs: 500, independent: true }] : [],
  }));
  const list = { name: "video", nextAt: "", segments, startedAt: 0, ended: false };
  const whole = mediaPlaylist({ ...list, skip: false });
  expect(whole.match(/^video-\d+\.m4s$/gm)).toHaveLength(40);
  const delta = mediaPlaylist({ ...list, skip: true });
  expect(delta).toContain("#EXT-X-SKIP:SKIPPED-SEGMENTS=31");
  expect(delta.match(/^video-\d+\.m4s$/gm)).toHaveLength(9);
  expect(delta).not.toContain("#EXT-X-MAP");
  expect(delta).toContain('#EXT-X-PRELOAD-HINT:TYPE=PART,URI="video-40.0.m4s"');
});

const videoEvents = (recording: { roomId: string; recordingId: string }, fileId: string, pieces: readonly Piece[]) =>
  pieces.map((piece) => {
    const about = { fileId, identity: "ada", trackId: "camera", kind: "video", source: "camera" };
    const part = { ...about, codecs: VIDEO.codecs, width: 320, height: 240, ...piece };
    return { type: "recordingPart", ...recording, part } as MediaEvent & { type: "recordingPart" };
  });

test("[18] the next process of the server continues a stream in the middle of a segment, as if it were the same", async () => {
  const { runtime } = server;
  const folder = recordingFolder(runtime.config);
  const stream = { id: crypto.randomUUID(), roomId: crypto.randomUUID(), startedAt: 0 };
  const events = videoEvents({ roomId: stream.roomId, recordingId: stream.id }, "first", VIDEO.pieces);
  const middle = events.findLastIndex(({ part }) => part.beginsSegment) - 2;
  expect(events[middle - 1]?.part.endsSegment).toBe(false);
  const older = createHls(runtime, folder);
  older.begin(stream);
  for (const event of events.slice(0, middle)) older.handleEvent(event);
  await older.handOver(stream.id, true);

  const newer = createHls(runtime, folder);
  await newer.resume(stream);
  expect([newer.takeContinued(stream.id), newer.takeContinued(stream.id)]).toEqual([true, false]);
  for (const event of events.slice(middle)) newer.handleEvent(event);
  const whole = createHls(runtime, folder).begin({ ...stream, id: crypto.randomUUID() });
  for (const { part } of events) whole.video.add(part, part.head === null ? null : Uint8Array.fromBase64(part.head));
  const after = newer.inRoom(stream.roomId);
  if (!after) throw new Error("there is no stream");
  const withoutKeys = (playlist: string) => playlist.replaceAll(/\.\.\/\w+\//g, "");
  expect(withoutKeys(after.video.playlist(0, false))).toBe(withoutKeys(whole.video.playlist(0, false)));
  for (const [index, { parts }] of whole.video.segments.entries()) {
    expect(await (await after.video.read(index))?.bytes()).toEqual(await (await whole.video.read(index))?.bytes());
    for (const part of parts.keys())
      expect(await (await after.video.read(index, part))?.bytes()).toEqual(
        await (await whole.video.read(index, part))?.bytes(),
      );
  }
  await newer.remove(stream.id);
});

test("[18] the next process of the server continues a stream after a discontinuity, with the same viewers", async () => {
  const { runtime } = server;
  const folder = recordingFolder(runtime.config);
  const stream = { id: crypto.randomUUID(), roomId: crypto.randomUUID(), startedAt: 0 };
  const { id: recordingId, roomId } = stream;
  const sent = (fileId: string, pieces: readonly Piece[]) => videoEvents({ roomId, recordingId }, fileId, pieces);
  const older = createHls(runtime, folder);
  const before = older.begin(stream);
  for (const event of sent("first", VIDEO.pieces)) older.handleEvent(event);
  const [guest, removed] = ["grace", "mallory"].map((identity) =>
    before.keys.viewerKey({ tokenId: crypto.randomUUID(), identity }),
  );
  clock.advance(1);
  before.keys.bar("mallory");
  const count = before.video.segments.length;
  const [first] = await Promise.all([before.video.read(0), older.handOver(recordingId, false)]);
  for (const event of sent("first", VIDEO.pieces)) older.handleEvent(event);

  const newer = createHls(runtime, folder);
  await newer.resume(stream);
  const after = newer.inRoom(roomId);
  if (!after) throw new Error("there is no stream");
  expect([guest, removed].map((viewer) => after.keys.isViewerKey(viewer ?? ""))).toEqual([true, false]);
  // Without the beginning of a file nothing can be played.
  for (const event of sent("first", VIDEO.pieces)) newer.handleEvent({ ...event, part: { ...event.part, head: null } });
  expect(after.video.segments).toHaveLength(count);
  newer.handleEvent({ type: "recordingFileEnded", roomId, recordingId, file: { fileId: "first" } } as never);
  for (const event of sent("second", VIDEO.pieces)) newer.handleEvent(event);
  expect(after.video.segments).toHaveLength(2 * count);
  expect(await (await after.video.read(0))?.bytes()).toEqual(await first?.bytes());
  expect(await after.video.head(0)?.bytes()).toEqual(await after.video.head(1)?.bytes());
  const discontinuities = after.video.segments.map(({ discontinuity }) => discontinuity);
  expect(discontinuities.flatMap((isOne, index) => (isOne ? [index] : []))).toEqual([count]);
  const names = [...after.video.playlist(0, false).matchAll(/video-(\d+)\.m4s$/gm)].map(([, index]) => Number(index));
  expect(names).toEqual(names.map((_, index) => index));
  await newer.remove(recordingId);
});
