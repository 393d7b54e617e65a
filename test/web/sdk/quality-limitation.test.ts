import { expect, test } from "bun:test";
import { type OutboundStats, QualityLimitationReader } from "../../../web/sdk/room/peer/quality-limitation.ts";

const at = (seconds: number, durations: OutboundStats["qualityLimitationDurations"], id = "f"): OutboundStats => ({
  id,
  type: "outbound-rtp",
  kind: "video",
  timestamp: seconds * 1_000,
  qualityLimitationDurations: durations,
});

test("[17] a limited encoder is reported with the seconds since the last reading", () => {
  const reader = new QualityLimitationReader();
  expect(reader.read([at(0, { cpu: 0, bandwidth: 0 })])).toEqual({ cpu: 0, bandwidth: 0 });
  expect(reader.read([at(5, { cpu: 3, bandwidth: 0 })])).toEqual({ cpu: 3, bandwidth: 0 });
  expect(reader.read([at(10, { cpu: 8, bandwidth: 0 })])).toEqual({ cpu: 5, bandwidth: 0 });
  expect(reader.read([at(15, { cpu: 8, bandwidth: 0 })])).toEqual({ cpu: 0, bandwidth: 0 });
});

test("[17] simulcast layers of one video count once as limited, and limitation during ramp-up is ignored", () => {
  const reader = new QualityLimitationReader();
  reader.read([at(0, { bandwidth: 0 }, "q"), at(0, { bandwidth: 0 }, "f")]);
  expect(reader.read([at(10, { bandwidth: 9 }, "q"), at(10, { bandwidth: 9 }, "f")]).bandwidth).toBe(0);
  expect(reader.read([at(20, { bandwidth: 13 }, "q"), at(20, { bandwidth: 14 }, "f")]).bandwidth).toBe(5);
});

test("[17] audio, received streams and browsers without limitation durations are ignored", () => {
  const reader = new QualityLimitationReader();
  const entries: OutboundStats[] = [
    { ...at(60, { cpu: 50 }), kind: "audio" },
    { ...at(60, { cpu: 50 }), type: "inbound-rtp" },
    { ...at(60, { cpu: 50 }), qualityLimitationDurations: undefined },
  ];
  reader.read(entries);
  expect(reader.read(entries)).toEqual({ cpu: 0, bandwidth: 0 });
});
