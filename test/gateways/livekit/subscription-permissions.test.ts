import { expect, test } from "bun:test";
import { SubscriptionPermission, TrackPermission } from "@livekit/protocol";
import { SubscriptionPermissions } from "../../../src/gateways/livekit/subscription-permissions.ts";
import { TrackSelection } from "../../../src/gateways/livekit/track-selection.ts";
import { createRequests } from "../../../src/gateways/signaling/requests.ts";
import type { RtcSession } from "../../../src/gateways/signaling/rtc-session.ts";
import { trackSid } from "../../../src/protocol/media/livekit-sids.ts";

const VOICE = { id: "trk_voice", kind: "audio" };
const FACE = { id: "trk_face", kind: "video" };

/** Ann publishes voice and face; Ben and Cay receive. */
function meeting() {
  const asked: unknown[] = [];
  const node = {
    negotiate: async (request: { subscribe: { trackId: string }[] }) => {
      asked.push(request.subscribe.map(({ trackId }) => trackId));
      return { sdp: "", tracks: [] };
    },
    updateSubscriptions: async ({ tracks }: { tracks: object[] }) => void asked.push(tracks),
  };
  const room = { id: "r", sessions: new Map<string, RtcSession>() };
  const permissions = { subscribe: true };
  const add = (identity: string, tracks: { id: string }[] = []) => {
    const known = new Map(tracks.map((track) => [track.id, track]));
    const session = {
      id: `s-${identity}`,
      identity,
      room,
      site: { node },
      permissions,
      waiting: false,
      tracks: known,
    } as never;
    room.sessions.set(identity, session);
    return session as RtcSession;
  };
  const [ann, ben, cay] = [add("ann", [VOICE, FACE]), add("ben"), add("cay")];
  const rules = new SubscriptionPermissions();
  const heardBy: string[] = [];
  ann.publishing = {
    mayReceive: (receiver, trackId) => rules.mayReceive(receiver, trackId),
    received: (receiver, trackId) => void heardBy.push(`${receiver.identity} ${trackId}`),
  };
  const wanted = (session: RtcSession) => new TrackSelection(session, true).wanted().map(({ trackId }) => trackId);
  return { ben, cay, rules, wanted, asked, heardBy };
}

const only = (...trackPermissions: Partial<TrackPermission>[]) =>
  new SubscriptionPermission({ trackPermissions: trackPermissions.map((one) => new TrackPermission(one)) });

test("a publisher says who receives its tracks, by identity or sid, all of them or some", () => {
  const { ben, cay, rules, wanted } = meeting();
  const both = () => [wanted(ben), wanted(cay)];
  expect(both()).toEqual([
    ["trk_voice", "trk_face"],
    ["trk_voice", "trk_face"],
  ]);
  rules.set(only());
  expect(both()).toEqual([[], []]);
  rules.set(
    only(
      { participantIdentity: "ben", allTracks: true },
      { participantSid: "PA_s-cay", trackSids: [trackSid("trk_face")] },
    ),
  );
  expect(both()).toEqual([["trk_voice", "trk_face"], ["trk_face"]]);
  rules.set(new SubscriptionPermission({ allParticipants: true }));
  expect(both()).toEqual([
    ["trk_voice", "trk_face"],
    ["trk_voice", "trk_face"],
  ]);
});

test("a client of our SDK receives only tracks that the publisher allows, and the publisher is notified of the subscription", async () => {
  const { ben, rules, asked, heardBy } = meeting();
  const requests = createRequests(() => 0, { publisherLimit: { take() {} } } as never);
  const subscribe = ["trk_voice", "trk_face"].map((trackId, n) => ({ trackId, mid: String(n) }));
  const offer = { type: "media.offer", id: "1", sdp: "v=0", publish: [], subscribe } as never;
  rules.set(only({ participantIdentity: "ben", trackSids: [trackSid("trk_face")] }));
  await requests["media.offer"](ben, offer);
  expect(asked).toEqual([["trk_face"]]);
  expect(heardBy).toEqual(["ben trk_face"]);
  const update = (trackId: string, mid: string | null) =>
    requests["subscription.update"](ben, { type: "subscription.update", id: "2", tracks: [{ trackId, mid }] } as never);
  await expect(update("trk_voice", "0")).rejects.toThrow("receive this track");
  await update("trk_voice", null);
  await update("trk_face", "1");
  expect(heardBy).toEqual(["ben trk_face", "ben trk_face"]);
});
