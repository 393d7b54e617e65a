import { expect, test } from "bun:test";
import { createRequests } from "../../../src/gateways/signaling/requests.ts";
import type { RtcSession } from "../../../src/gateways/signaling/rtc-session.ts";

const PARTICIPANTS = 2_000;
const NAMED_TRACKS = 512;

/** Counts how often a request looks at the tracks of any participant. */
class CountedTracks extends Map<string, object> {
  static looks = 0;

  override has(trackId: string): boolean {
    CountedTracks.looks++;
    return super.has(trackId);
  }

  override keys() {
    CountedTracks.looks++;
    return super.keys();
  }
}

function viewerInLargeRoom(): RtcSession {
  const room = { id: "r", sessions: new Map<string, RtcSession>() };
  const site = { node: { negotiate: async () => ({ sdp: "", tracks: [] }), updateSubscriptions: async () => {} } };
  const publishing = { mayReceive: () => true, received() {} };
  const add = (identity: string) => {
    const permissions = { subscribe: true };
    const tracks = new CountedTracks();
    const session = { id: identity, identity, room, site, permissions, publishing, tracks } as unknown as RtcSession;
    room.sessions.set(identity, session);
    return session;
  };
  for (let n = 1; n < PARTICIPANTS; n++) add(`p${n}`);
  return add("viewer");
}

test("a request that names hundreds of tracks searches a large room once or twice, and not for each track", async () => {
  const requests = createRequests(() => 0, { publisherLimit: { take() {} } } as never);
  const viewer = viewerInLargeRoom();
  const tracks = Array.from({ length: NAMED_TRACKS }, (_, n) => ({ trackId: `none-${n}`, mid: String(n) }));
  CountedTracks.looks = 0;
  await requests["subscription.update"](viewer, { type: "subscription.update", id: "1", tracks });
  expect(CountedTracks.looks).toBeLessThanOrEqual(2 * PARTICIPANTS);
  CountedTracks.looks = 0;
  const offer = { type: "media.offer" as const, id: "2", sdp: "v=0", publish: [], subscribe: tracks };
  await requests["media.offer"](viewer, offer);
  expect(CountedTracks.looks).toBeLessThanOrEqual(2 * PARTICIPANTS);
});
