import { expect, test } from "bun:test";
import {
  newTrackId,
  participantSid,
  roomSid,
  sessionIdOf,
  trackIdOf,
  trackSid,
} from "../../../src/protocol/media/livekit-sids.ts";

test("sids map back to our ids, and two of them fit into the 64 characters of a stream id", () => {
  for (let i = 0; i < 100; i++) {
    const [session, track] = [Bun.randomUUIDv7(), newTrackId()];
    expect(sessionIdOf(participantSid(session))).toBe(session);
    expect(trackIdOf(trackSid(track))).toBe(track);
    expect(`${participantSid(session)}|${trackSid(track)}`).toMatch(/^PA_[\w-]+\|TR_[\w-]+$/);
    expect(`${participantSid(session)}|${trackSid(track)}`.length).toBeLessThanOrEqual(64);
  }
  expect(roomSid("r")).toBe("RM_r");
  expect([sessionIdOf("PA_p1"), sessionIdOf("RM_p1"), trackIdOf("TR_x")]).toEqual(["p1", null, "trk_x"]);
});
