import { expect, test } from "bun:test";
import { Seats } from "../../../src/gateways/livekit/connections/seats.ts";

const video = (trackId: string) => ({ trackId, kind: "video" as const });

test("a freed section rests for one answer, then takes the next track; nothing is said anew of one that stays", () => {
  const seats = new Seats();
  seats.add("0", "video");
  seats.place([video("a")]);
  seats.answered();
  seats.place([video("a")]);
  expect(seats.of("a")).toMatchObject({ mid: "0", isReused: false });
  expect(seats.differsFrom([video("a")])).toBe(false);

  expect(seats.missing([video("b")])).toEqual({ audio: 0, video: 0 });
  seats.place([video("b")]);
  expect(seats.all()).toMatchObject([{ trackId: null, clean: false }]);
  seats.answered();
  expect(seats.differsFrom([video("b")])).toBe(true);
  seats.place([video("b")]);
  expect(seats.of("b")).toMatchObject({ mid: "0", isReused: true });
  expect(seats.missing([video("b"), video("c")])).toEqual({ audio: 0, video: 1 });
});
