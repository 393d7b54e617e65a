import { expect, test } from "bun:test";
import { AudioCodec, EncodingOptions, RoomCompositeEgressRequest, VideoCodec } from "@livekit/protocol";
import { encoderCommand } from "../../../src/features/egress/compositor/encoder.ts";
import { encodingOf, outputsOf } from "../../../src/gateways/livekit/server-api/egress-request.ts";

const BOTH = { hasVideo: true, hasAudio: true };
const advanced = (options: ConstructorParameters<typeof EncodingOptions>[0]) =>
  ({ case: "advanced", value: new EncodingOptions(options) }) as const;

test("the profile of H.264 is that of the request, and main without one", () => {
  const profileOf = (videoCodec: VideoCodec) => {
    const command = encoderCommand(encodingOf(advanced({ videoCodec }), BOTH, "aac"));
    return command[command.indexOf("-profile:v") + 1];
  };
  const { DEFAULT_VC, H264_BASELINE, H264_MAIN, H264_HIGH } = VideoCodec;
  expect([DEFAULT_VC, H264_BASELINE, H264_MAIN, H264_HIGH].map(profileOf)).toEqual([
    "main",
    "baseline",
    "main",
    "high",
  ]);
  expect(() => profileOf(VideoCodec.VP8)).toThrow("not served here");
});

test("the codec of the sound is that of the file's format, and another one is refused", () => {
  const codecOf = (audioCodec: AudioCodec, codec: "aac" | "opus") =>
    encodingOf(advanced({ audioCodec }), BOTH, codec).audioCodec;
  const { AAC, OPUS, AC_MP3, DEFAULT_AC } = AudioCodec;
  expect([codecOf(AAC, "aac"), codecOf(OPUS, "opus"), codecOf(DEFAULT_AC, "opus")]).toEqual(["aac", "opus", "opus"]);
  for (const [wanted, codec] of [
    [OPUS, "aac"],
    [AAC, "opus"],
    [AC_MP3, "aac"],
  ] as const)
    expect(() => codecOf(wanted, codec)).toThrow("not served here");
});

test("an output in the deprecated field counts unless the list of its kind has one", () => {
  const kindsOf = (request: ConstructorParameters<typeof RoomCompositeEgressRequest>[0]) =>
    outputsOf(new RoomCompositeEgressRequest(request), BOTH).map(({ kind }) => kind);
  const output = { case: "file", value: { filepath: "x.mp4" } } as const;
  expect(kindsOf({ output })).toEqual(["file"]);
  expect(kindsOf({ output, fileOutputs: [{ filepath: "x.mp4" }] })).toEqual(["file"]);
  expect(kindsOf({ output, streamOutputs: [{ urls: ["rtmp://x.com/a/b"] }] })).toEqual(["file", "stream"]);
});
