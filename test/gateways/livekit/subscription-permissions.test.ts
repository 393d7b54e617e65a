import { expect, test } from "bun:test";
import { SignalRequest, SignalResponse, SubscriptionPermission, TrackPermission } from "@livekit/protocol";
import { SignJWT } from "jose";
import { readJoinParameters } from "../../../src/gateways/livekit/join-request.ts";
import {
  requestedPermissions,
  SubscriptionPermissions,
} from "../../../src/gateways/livekit/subscription-permissions.ts";
import { TrackSelection } from "../../../src/gateways/livekit/track-selection.ts";
import { createRequests } from "../../../src/gateways/signaling/requests.ts";
import type { RtcSession } from "../../../src/gateways/signaling/rtc-session.ts";
import { trackSid } from "../../../src/protocol/media/livekit-sids.ts";
import { type RtcServer, rtcServer, settled, until } from "../../harness/rtc.ts";

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
  let rules = new SubscriptionPermissions();
  const allow = (permission: SubscriptionPermission) => {
    rules = requestedPermissions(permission);
  };
  const heardBy: string[] = [];
  ann.publishing = {
    mayReceive: (receiver, trackId) => rules.mayReceive(receiver, trackId),
    received: (receiver, trackId) => void heardBy.push(`${receiver.identity} ${trackId}`),
  };
  const wanted = (session: RtcSession) => new TrackSelection(session, true).wanted().map(({ trackId }) => trackId);
  return { ben, cay, allow, wanted, asked, heardBy };
}

const only = (...trackPermissions: Partial<TrackPermission>[]) =>
  new SubscriptionPermission({ trackPermissions: trackPermissions.map((one) => new TrackPermission(one)) });

test("a publisher says who receives its tracks, by identity or sid, all of them or some", () => {
  const { ben, cay, allow, wanted } = meeting();
  const both = () => [wanted(ben), wanted(cay)];
  expect(both()).toEqual([
    ["trk_voice", "trk_face"],
    ["trk_voice", "trk_face"],
  ]);
  allow(only());
  expect(both()).toEqual([[], []]);
  allow(
    only(
      { participantIdentity: "ben", allTracks: true },
      { participantSid: "PA_s-cay", trackSids: [trackSid("trk_face")] },
    ),
  );
  expect(both()).toEqual([["trk_voice", "trk_face"], ["trk_face"]]);
  allow(new SubscriptionPermission({ allParticipants: true }));
  expect(both()).toEqual([
    ["trk_voice", "trk_face"],
    ["trk_voice", "trk_face"],
  ]);
});

test("a client of our SDK receives only tracks that the publisher allows, and the publisher is notified of the subscription", async () => {
  const { ben, allow, asked, heardBy } = meeting();
  const requests = createRequests(() => 0, { publisherLimit: { take() {} } } as never);
  const subscribe = ["trk_voice", "trk_face"].map((trackId, n) => ({ trackId, mid: String(n) }));
  const offer = { type: "media.offer", id: "1", sdp: "v=0", publish: [], subscribe } as never;
  allow(only({ participantIdentity: "ben", trackSids: [trackSid("trk_face")] }));
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

/** A LiveKit client whose socket stays in this process. */
async function livekitClient(server: RtcServer, roomName: string, identity: string) {
  const { apiKeys, livekitClients } = server.services;
  const { publicId } = await server.runtime.write((unit) =>
    apiKeys.create(unit, server.projectId, { name: identity, environment: "DEVELOPMENT" }),
  );
  const token = await new SignJWT({ video: { roomJoin: true, room: roomName } })
    .setProtectedHeader({ alg: "HS256" })
    .setIssuer(publicId)
    .setSubject(identity)
    .setIssuedAt(Math.floor(server.clock.now() / 1_000))
    .setExpirationTime(Math.floor(server.clock.now() / 1_000) + 600)
    .sign(Buffer.from(apiKeys.signingSecret(publicId)));
  const heard: SignalResponse["message"][] = [];
  const network = {
    bufferedBytes: 0,
    sendBytes: (data: Uint8Array) => void heard.push(SignalResponse.fromBinary(data).message),
    close() {},
  };
  const request = { ipAddress: "127.0.0.1", userAgent: null, origin: null };
  const parameters = () => readJoinParameters(new Request("http://localhost/rtc?sdk=go"), "two");
  const events = livekitClients.connections.connect(
    network as never,
    await livekitClients.connections.admit(token, request, parameters),
  );
  await until(() => heard.some((one) => one?.case === "join"));
  return {
    say(message: SignalRequest["message"]): void {
      const frame = Buffer.from(new SignalRequest({ message }).toBinary());
      events.received(null, frame.length, frame);
    },
    /** Whether this client may receive a track, for each time that it was told. */
    told: () => heard.flatMap((one) => (one?.case === "subscriptionPermissionUpdate" ? [one.value.allowed] : [])),
  };
}

test("a publisher that allows and forbids without end costs each receiver one change, and then a rest", async () => {
  const server = await rtcServer();
  const roomId = await server.room("hall");
  const ann = await livekitClient(server, "hall", "ann");
  const receivers = await Promise.all(["ben", "cay"].map((identity) => livekitClient(server, "hall", identity)));
  for (let n = 0; n < 30; n++) await server.joined(roomId, `viewer-${n}`);
  const peer = server.node.peers().find(({ identity }) => identity === "ann");
  if (!peer) throw new Error("ann is not there");
  for (const id of ["trk_1", "trk_2", "trk_3"]) {
    const track = { id, kind: "audio" as const, source: "microphone" as const, name: null, muted: false };
    const { participantId, identity } = peer;
    const published = { ...track, simulcast: false, codec: "opus" };
    server.node.emit({ type: "trackPublished", roomId, participantId, identity, track: published });
  }
  await settled();
  // One of them the media node does not know any more, which is no reason to let the others receive.
  const missing = server.node.peers().find(({ identity }) => identity === "viewer-0");
  await server.node.removeParticipant({ roomId, participantId: missing?.participantId ?? "" });
  const cuts = () => server.node.calls.filter((name) => name === "updateSubscriptions").length;
  const toggle = (allParticipants: boolean) =>
    ann.say({ case: "subscriptionPermission", value: new SubscriptionPermission({ allParticipants }) });
  for (let n = 0; n < 41; n++) toggle(n % 2 === 1);
  let turns = 0;
  const toldTimes = () => receivers.map((one) => one.told().length);
  while (Math.min(...toldTimes()) < 3 || cuts() < 32) {
    turns += 1;
    await new Promise((resolve) => void setImmediate(resolve));
  }
  // No participant waits in the same turn of the event loop for the others.
  expect(turns).toBeGreaterThan(30);
  await settled();
  expect([toldTimes(), cuts()]).toEqual([[3, 3], 32]);

  // Only the newest of those that came meanwhile is applied, after the rest.
  toggle(true);
  await settled();
  expect(toldTimes()).toEqual([3, 3]);
  server.clock.advance(1_000);
  await until(() => Math.min(...toldTimes()) === 6);
  await settled();
  expect(receivers.map((one) => one.told())).toEqual(receivers.map(() => [false, false, false, true, true, true]));
  // The clients that have not negotiated yet get the tracks on the sections that they had.
  expect(cuts()).toBe(32 + 2);
  await server.close();
});
