import { afterEach, beforeEach, expect, test } from "bun:test";
import { preferCodecs } from "../../../web/sdk/room/peer/codecs.ts";

type Codec = { mimeType: string; sdpFmtpLine?: string };

/** An excerpt of Chromium's capabilities. */
const OFFERED: Record<"audio" | "video", Codec[]> = {
  audio: [
    { mimeType: "audio/opus", sdpFmtpLine: "minptime=10;useinbandfec=1" },
    { mimeType: "audio/red" },
    { mimeType: "audio/G722" },
    { mimeType: "audio/telephone-event" },
  ],
  video: [
    { mimeType: "video/VP8" },
    { mimeType: "video/rtx" },
    { mimeType: "video/H264", sdpFmtpLine: "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42001f" },
    { mimeType: "video/H264", sdpFmtpLine: "level-asymmetry-allowed=1;packetization-mode=0;profile-level-id=42e01f" },
    { mimeType: "video/H264", sdpFmtpLine: "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f" },
    { mimeType: "video/VP9", sdpFmtpLine: "profile-id=0" },
    { mimeType: "video/VP9", sdpFmtpLine: "profile-id=2" },
    { mimeType: "video/AV1", sdpFmtpLine: "level-idx=5;profile=0;tier=0" },
    { mimeType: "video/red" },
    { mimeType: "video/ulpfec" },
  ],
};

let offered = OFFERED;
const before = Object.getOwnPropertyDescriptor(globalThis, "RTCRtpReceiver");
beforeEach(() => {
  offered = OFFERED;
  const value = { getCapabilities: (kind: "audio" | "video") => ({ codecs: offered[kind] }) };
  Object.defineProperty(globalThis, "RTCRtpReceiver", { value, configurable: true });
});
afterEach(() => {
  if (before) Object.defineProperty(globalThis, "RTCRtpReceiver", before);
  else Reflect.deleteProperty(globalThis, "RTCRtpReceiver");
});

function preferred(
  kind: "audio" | "video",
  first?: "VP8" | "H264" | "VP9" | "AV1",
  limit: { maxBitrate?: number } = {},
): string[] {
  const set: Codec[] = [];
  const transceiver = { setCodecPreferences: (codecs: Codec[]) => set.push(...codecs) };
  preferCodecs(transceiver as unknown as RTCRtpTransceiver, kind, { first, ...limit });
  return set.map(({ mimeType, sdpFmtpLine }) => [mimeType.split("/")[1], sdpFmtpLine].filter(Boolean).join(" "));
}

const H264 = "H264 level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f";
const VP9 = "VP9 profile-id=0";
const AV1 = "AV1 level-idx=5;profile=0;tier=0";

test("[2] audio offers only RED, where supported and up to 96 kbit/s, and Opus", () => {
  expect(preferred("audio")).toEqual(["red", "opus minptime=10;useinbandfec=1"]);
  expect(preferred("audio", undefined, { maxBitrate: 96_000 })).toContain("red");
  expect(preferred("audio", undefined, { maxBitrate: 128_000 })).toEqual(["opus minptime=10;useinbandfec=1"]);
});

test("[2] video offers the one profile per codec that all browsers decode, and RTX, but no FEC", () => {
  expect(preferred("video")).toEqual(["VP8", H264, VP9, AV1, "rtx"]);
});

test("[2] the publisher's codec comes first, followed by the others", () => {
  expect(preferred("video", "AV1")).toEqual([AV1, "VP8", H264, VP9, "rtx"]);
  expect(preferred("video", "VP8")).toEqual(["VP8", H264, VP9, AV1, "rtx"]);
});

test("[2] without any known codec no preference is set", () => {
  offered = { audio: [], video: [] };
  expect(preferred("audio")).toEqual([]);
  expect(preferred("video", "H264")).toEqual([]);
});
