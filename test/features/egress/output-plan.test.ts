import { expect, test } from "bun:test";
import {
  filledPath,
  type OutputRequest,
  parseStreamUrl,
  planOutput,
  withoutKey,
} from "../../../src/features/egress/output-plan.ts";
import { targetRule } from "../../../src/features/webhooks/url-check.ts";

const WORDS = { room_name: "a/b ü", time: "2026-01-02T030405" };

const plan = (request: OutputRequest, addresses: string[] = ["93.184.215.14"], isPrivateAllowed = false) =>
  planOutput(request, {
    folder: "/data/egress/p",
    uploads: "/data/egress/.uploads/e",
    words: WORDS,
    newId: () => "id",
    lookup: async () => addresses,
    allows: targetRule("PRODUCTION", isPrivateAllowed, true),
  });
const stream = (url: string): OutputRequest => ({ kind: "stream", url });

test("placeholders in a path are filled in, and a path without a file name gets one", () => {
  expect(filledPath("/x/{room_name}-{other}", WORDS, "f", ".mp4")).toBe("x/a-b ü-{other}.mp4");
  expect(filledPath("x/", WORDS, "f", ".mp4")).toBe("x/f.mp4");
  expect(filledPath("x.MP4", WORDS, "f", ".mp4")).toBe("x.MP4");
});

test("no path of an output leaves its folder", () => {
  for (const path of ["../x", "a/../../x", "a/..", "x\0y", "x\ny"])
    expect(() => filledPath(path, WORDS, "f", ".mp4")).toThrow();
  expect(() => filledPath("{room_name}", { room_name: ".." }, "f", "")).toThrow();
  expect(filledPath("{room_name}", { room_name: "../x" }, "f", "")).toBe("..-x");
  const long = `${"x/".repeat(500)}${"x".repeat(20)}`;
  expect(filledPath(long, WORDS, "f", ".mp4")).toHaveLength(1_024);
  expect(() => filledPath(`${long}x`, WORDS, "f", ".mp4")).toThrow();
  // Longer names than file systems take are refused, in place of an error of the server.
  expect(filledPath("ü".repeat(118), WORDS, "f", "")).toHaveLength(118);
  for (const name of ["ü".repeat(121), `${"x".repeat(241)}/x`])
    expect(() => filledPath(name, WORDS, "f", "")).toThrow("240 bytes");
});

test("a file is planned in the folder, and with a bucket beside it", async () => {
  const bucket = { bucket: "b", endpoint: null, region: null, accessKeyId: "k", secretAccessKey: "s" };
  const more = { sessionToken: null, virtualHostedStyle: false };
  const file = { kind: "file", path: "x", format: "mp4", bucket: null } as const;
  expect((await plan(file)).target).toMatchObject({ path: "/data/egress/p/x.mp4" });
  const uploaded = await plan({ ...file, bucket: { ...bucket, ...more } });
  expect(uploaded.target).toMatchObject({ path: "/data/egress/.uploads/e/id/x.mp4" });
  expect(JSON.stringify([uploaded.output, uploaded.target])).not.toContain("secret");
});

test("playlists are beside their segments", async () => {
  const segments = {
    kind: "segments",
    prefix: "live/{room_name}",
    playlist: "list",
    livePlaylist: "now.m3u8",
  } as const;
  const { target, output } = await plan({ ...segments, seconds: 0, bucket: null });
  expect(target).toMatchObject({ prefix: "/data/egress/p/live/a-b ü", seconds: 4 });
  expect([output.playlist, output.livePlaylist]).toEqual(["live/list.m3u8", "live/now.m3u8"]);
  expect(plan({ ...segments, playlist: "elsewhere/list", seconds: 0, bucket: null })).rejects.toThrow("folder");
  expect(plan({ ...segments, seconds: 61, bucket: null })).rejects.toThrow("segmentDuration");
});

test("a stream goes to the address that was checked, and never into a private network", async () => {
  expect((await plan(stream("rtmps://live.example.com/app/key"))).target).toMatchObject({ address: "93.184.215.14" });
  for (const address of ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00::1"])
    expect(plan(stream("rtmp://live.example.com/app/key"), [address])).rejects.toThrow("public internet");
  expect(plan(stream("rtmp://169.254.169.254/app/key"))).rejects.toThrow("public internet");
  expect((await plan(stream("rtmp://box.local/app/key"), ["10.0.0.1"], true)).target).toMatchObject({
    address: "10.0.0.1",
  });
  expect(plan(stream("rtmp://box.local/app/key"), ["169.254.169.254"], true)).rejects.toThrow("public internet");
});

test("only known protocols and options are taken", () => {
  for (const url of ["http://x.com/a", "file:///etc/passwd", "rtmp://u:p@x.com/a/k", "srt://x.com", "x"])
    expect(() => parseStreamUrl(url)).toThrow();
  for (const option of ["mode=listener", "mode=rendezvous", "enforced_encryption=0", "localport=1"])
    expect(() => parseStreamUrl(`srt://x.com:9000?${option}`)).toThrow();
  expect(parseStreamUrl("srt://x.com:9000?mode=caller&streamid=a&passphrase=0123456789").port).toBe("9000");
});

test("stream keys and passphrases are not shown", () => {
  expect(withoutKey("rtmp://x.com:1935/live/verysecretkey?sign=alsosecret")).toBe("rtmp://x.com:1935/live/{ver...key}");
  expect(withoutKey("rtmps://x.com/live/short")).toBe("rtmps://x.com/live/{...}");
  expect(withoutKey("srt://x.com:9000?streamid=publish:room&passphrase=0123456789&latency=200")).toBe(
    "srt://x.com:9000?streamid={pub...oom}&passphrase={012...789}&latency=200",
  );
});
