/** Live streams of codecs that HLS does not carry, encoded again. */
import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RecordedFeed, RecordedFile } from "../../../src/protocol/media/recording.ts";
import type { MediaEvent } from "../../../src/protocol/media-node.ts";
import { formatOf, framesOf } from "../../../src/sfu/recording/media-file.ts";
import { WebmFile } from "../../../src/sfu/recording/webm-file.ts";
import { concatSpans as joined, spanOf } from "../../../src/sfu/wire/frames/frame.ts";
import { rtcServer, settled } from "../../harness/rtc.ts";
import { encoded, probe } from "./ffmpeg.ts";
import { vp8, vp9 } from "./packetizers.ts";

const SECONDS = 4;
const BEGINS_AT_MS = 3_000;
const folder = mkdtempSync(join(tmpdir(), "stoa-transcode-"));
const server = await rtcServer({ HLS_TRANSCODE: true });
afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});
const call = (method: string, path: string, body?: object) => server.call(method, path, { key: server.key, body });
const get = (url: string) => server.app.handle(new Request(new URL(url, "http://localhost")));

const FAST = ["-deadline", "realtime", "-cpu-used", "8", "-auto-alt-ref", "0", "-lag-in-frames", "0", "-g", "25"];
const SOURCES = {
  VP8: () => vp8(encoded("ivf", SECONDS, "-c:v", "libvpx", ...FAST)),
  VP9: () => vp9(encoded("ivf", SECONDS, "-c:v", "libvpx-vp9", "-pix_fmt", "yuv420p", "-keyint_min", "25", ...FAST)),
};

/** What a recorder reports about a track of that codec. */
function feedOf(codec: keyof typeof SOURCES, fileId: string): RecordedFeed[] {
  const frames = framesOf(codec);
  let file: WebmFile | null = null;
  return SOURCES[codec]().map((sent) => {
    const made = frames?.assemble(sent.payloads.map(spanOf));
    if (!frames || !made) throw new Error("the frame is not whole");
    const format = formatOf(frames, { ...made, timestamp: sent.timestamp });
    if (format?.codec !== "vp8" && format?.codec !== "vp9") throw new Error("another codec");
    const head = file ? new Uint8Array(0) : null;
    file ??= new WebmFile(format);
    const atMs = BEGINS_AT_MS + sent.timestamp / 90;
    const bytes = joined([spanOf(head ?? file.begin()), ...file.add(made.spans, atMs, 40, made.keyframe)]);
    const data = Buffer.from(bytes).toString("base64");
    const about = { fileId, identity: "ada", trackId: "camera", source: "camera", width: 320, height: 240 } as const;
    return { ...about, atMs, keyframe: made.keyframe, begins: head === null, data };
  });
}

const told = "[18] with HLS_TRANSCODE a live stream in %s is one in H.264 on the same clock, as long as it was";
test.each(["VP8", "VP9"] as const)(
  told,
  async (codec) => {
    const made = await call("POST", "/v1/live-streams", { title: "show", hostIdentity: "ada", record: true });
    const streamId = String(made.body.id);
    const roomId = String(made.body.roomId);
    await server.joined(roomId, "ada");
    await call("POST", `/v1/live-streams/${streamId}/start`);
    const started = () => server.node.calls.find((line) => line.startsWith(`startRecording ${roomId}`));
    while (!started()) await settled();
    const recordingId = started()?.split(" ")[2] ?? "";
    const viewer = await call("POST", `/v1/live-streams/${streamId}/viewer-tokens`, { identity: "grace" });
    const { token } = viewer.body.rtc as { token: string };

    const feed = feedOf(codec, "of-ada");
    for (const one of feed) server.node.emit({ type: "recordingFeed", roomId, recordingId, feed: one });
    // Only one of two hosts is carried, and nothing of the other is encoded.
    for (const one of feed) {
      server.node.emit({
        type: "recordingFeed",
        roomId,
        recordingId,
        feed: { ...one, fileId: "of-bob", identity: "bob" },
      });
    }
    const file = { fileId: "of-ada" } as RecordedFile;
    server.node.emit({ type: "recordingFileEnded", roomId, recordingId, file } as MediaEvent);
    const index = `/v1/live-streams/${streamId}/hls/index.m3u8?token=${token}`;
    /**
     * The playlist waits for audio, which never comes, while the clock is advanced by hand; it is requested again until the encoder
     * has begun.
     */
    const opened = async (): Promise<string> => {
      let text = "";
      void get(index).then(async (response) => {
        text = await response.text();
      });
      while (text === "") {
        server.clock.advance(100);
        await Bun.sleep(20);
      }
      return text.startsWith("#EXTM3U") ? text : opened();
    };
    const main = await opened();
    expect(main).toContain("RESOLUTION=320x240");
    const [, path = ""] = /^([\w-]+)\/video\.m3u8$/m.exec(main) ?? [];
    expect(main).toMatch(/CODECS="avc1\.4d\w{4}"/);

    const base = `/v1/live-streams/${streamId}/hls/${path}`;
    const segments = async () => {
      const list = await (await get(`${base}/video.m3u8`)).text();
      return [...list.matchAll(/^(\S+\/video-\d+\.m4s)$/gm)].map(([name]) => name);
    };
    // One segment of a second, then two of two seconds; the last one is short.
    while ((await segments()).length < 3) await Bun.sleep(20);
    const found = await segments();
    const names = [found[0]?.replace(/video-.*/, "video-init-0.mp4") ?? "", ...found];
    const bytes = await Promise.all(
      names.map(async (name) => new Uint8Array(await (await get(`${base}/${name}`)).arrayBuffer())),
    );
    const film = probe(Buffer.concat(bytes), "mp4");
    expect(film).toMatchObject({ codec: "h264", frames: feed.length, width: 320, height: 240 });
    expect(Math.round(film.durationSeconds * 10) / 10).toBe((BEGINS_AT_MS + SECONDS * 1_000) / 1_000);
  },
  180_000,
);
