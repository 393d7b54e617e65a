import { expect, test } from "bun:test";
import { MediaSections } from "../../../src/gateways/livekit/negotiation/media-sections.ts";

const video = (trackId: string) => ({ trackId, kind: "video" as const });

test("a freed section stays inactive for one answer and then takes the next track, and a kept one is not reused", () => {
  const sections = new MediaSections();
  sections.add("0", "video");
  sections.place([video("a")]);
  sections.answered();
  sections.place([video("a")]);
  expect(sections.of("a")).toMatchObject({ mid: "0", isReused: false });
  expect(sections.differsFrom([video("a")])).toBe(false);

  expect(sections.missing([video("b")])).toEqual({ audio: 0, video: 0 });
  sections.place([video("b")]);
  expect(sections.all()).toMatchObject([{ trackId: null, isReady: false }]);
  sections.answered();
  expect(sections.differsFrom([video("b")])).toBe(true);
  sections.place([video("b")]);
  expect(sections.of("b")).toMatchObject({ mid: "0", isReused: true });
  expect(sections.missing([video("b"), video("c")])).toEqual({ audio: 0, video: 1 });
});
