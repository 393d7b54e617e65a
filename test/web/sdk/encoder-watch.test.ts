import { expect, test } from "bun:test";
import { type EncoderEntry, LimitationReader } from "../../../web/sdk/room/peer/encoder-watch.ts";

const at = (seconds: number, durations: EncoderEntry["qualityLimitationDurations"], id = "f"): EncoderEntry => ({
  ...{ id, type: "outbound-rtp", kind: "video", timestamp: seconds * 1_000 },
  qualityLimitationDurations: durations,
});

test("[17] an encoder that is held back is told of by the seconds since the last look", () => {
  const reader = new LimitationReader();
  expect(reader.read([at(0, { cpu: 0, bandwidth: 0 })])).toEqual({ cpu: 0, bandwidth: 0 });
  expect(reader.read([at(5, { cpu: 3, bandwidth: 0 })])).toEqual({ cpu: 3, bandwidth: 0 });
  expect(reader.read([at(10, { cpu: 8, bandwidth: 0 })])).toEqual({ cpu: 5, bandwidth: 0 });
  expect(reader.read([at(15, { cpu: 8, bandwidth: 0 })])).toEqual({ cpu: 0, bandwidth: 0 });
});

test("[17] the sizes of one picture count once, and an estimate that still grows counts not at all", () => {
  const reader = new LimitationReader();
  reader.read([at(0, { bandwidth: 0 }, "q"), at(0, { bandwidth: 0 }, "f")]);
  expect(reader.read([at(10, { bandwidth: 9 }, "q"), at(10, { bandwidth: 9 }, "f")]).bandwidth).toBe(0);
  expect(reader.read([at(20, { bandwidth: 13 }, "q"), at(20, { bandwidth: 14 }, "f")]).bandwidth).toBe(5);
});

test("[17] sound, what is received, and browsers that do not tell are left out", () => {
  const reader = new LimitationReader();
  const entries: EncoderEntry[] = [
    { ...at(60, { cpu: 50 }), kind: "audio" },
    { ...at(60, { cpu: 50 }), type: "inbound-rtp" },
    { ...at(60, { cpu: 50 }), qualityLimitationDurations: undefined },
  ];
  reader.read(entries);
  expect(reader.read(entries)).toEqual({ cpu: 0, bandwidth: 0 });
});
