import { describe, expect, test } from "bun:test";
import type { Permissions } from "../../../../src/protocol/room-records.ts";
import { planNegotiation } from "../../../../src/sfu/transport/negotiation.ts";
import type { AnsweredSection } from "../../../../src/sfu/wire/sdp/answer.ts";
import { noExtensions } from "../../../../src/sfu/wire/sdp/extensions.ts";
import { ALL } from "../../room-of-peers.ts";

const make = (mid: string, kind: AnsweredSection["kind"], direction: "sends" | "receives"): AnsweredSection => ({
  mid,
  kind,
  rejected: false,
  sends: direction === "sends",
  receives: direction === "receives",
  codecs: [],
  extensions: noExtensions(),
});

const SECTIONS = [
  make("0", "audio", "receives"),
  make("1", "video", "receives"),
  make("2", "audio", "sends"),
  make("3", "video", "sends"),
];
const MIC = { mid: "0", clientTrackId: "mic", kind: "audio", source: "microphone" } as const;
const CAM = { mid: "1", clientTrackId: "cam", kind: "video", source: "camera" } as const;
const plan = (asked: Parameters<typeof planNegotiation>[1], permissions: Partial<Permissions> = {}) =>
  planNegotiation(SECTIONS, asked, { ...ALL, ...permissions });
const code = (run: () => unknown) => {
  try {
    run();
  } catch (error) {
    return (error as { code: string }).code;
  }
  return null;
};

describe("requests of an offer", () => {
  test("requests that fit the sections are accepted", () => {
    const subscribe = [{ mid: "3", trackId: "t" }];
    const voices = { mids: [], except: [] };
    expect(plan({ publish: [MIC, CAM], subscribe })).toEqual({ publish: [MIC, CAM], subscribe, voices });
  });

  test.each([
    ["[2] publish: false refuses every section", { publish: false }, [true, true]],
    ["[2] publishAudio restricts to audio", { publishAudio: true }, [false, true]],
    ["[2] publishVideo restricts to video", { publishVideo: true }, [true, false]],
    ["[2] neither allows both", {}, [false, false]],
    ["[2] both allow both", { publishAudio: true, publishVideo: true }, [false, false]],
  ] as const)("%s", (_, permissions, [audioRefused, videoRefused]) => {
    expect(code(() => plan({ publish: [MIC], subscribe: [] }, permissions))).toBe(
      audioRefused ? "PERMISSION_DENIED" : null,
    );
    expect(code(() => plan({ publish: [CAM], subscribe: [] }, permissions))).toBe(
      videoRefused ? "PERMISSION_DENIED" : null,
    );
  });

  test("[2] subscribe: false refuses subscriptions; WHEP waits until it is permitted", () => {
    expect(code(() => plan({ publish: [], subscribe: [{ mid: "3", trackId: "t" }] }, { subscribe: false }))).toBe(
      "PERMISSION_DENIED",
    );
    expect(plan({ publish: [], subscribe: [] }, { subscribe: false }).subscribe).toEqual([]);
    expect(plan({ publish: [] }, { subscribe: false }).subscribe).toBe("auto");
  });

  test.each([
    ["a section the client does not send on", { publish: [{ ...MIC, mid: "2" }], subscribe: [] }],
    ["a section of the other kind", { publish: [{ ...MIC, mid: "1" }], subscribe: [] }],
    ["a section that is not there", { publish: [{ ...MIC, mid: "9" }], subscribe: [] }],
    ["a section twice", { publish: [MIC, MIC], subscribe: [] }],
    ["a receiving section the client sends on", { publish: [], subscribe: [{ mid: "0", trackId: "t" }] }],
    [
      "two tracks on one section",
      {
        publish: [],
        subscribe: [
          { mid: "2", trackId: "a" },
          { mid: "2", trackId: "b" },
        ],
      },
    ],
    [
      "one track on two sections",
      {
        publish: [],
        subscribe: [
          { mid: "2", trackId: "a" },
          { mid: "3", trackId: "a" },
        ],
      },
    ],
  ])("%s is refused", (_, asked) => {
    expect(code(() => plan(asked))).toBe("NEGOTIATION_FAILED");
  });

  test("a plain WHIP offer publishes its sending sections, and a plain WHEP offer subscribes to all tracks", () => {
    expect(plan({})).toEqual({
      publish: [
        { mid: "0", clientTrackId: "0", kind: "audio", source: "microphone" },
        { mid: "1", clientTrackId: "1", kind: "video", source: "camera" },
      ],
      subscribe: "auto",
      voices: { mids: [], except: [] },
    });
  });
});
