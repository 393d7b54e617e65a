import { afterAll, beforeAll, expect, test } from "bun:test";
import {
  AddTrackRequest,
  DisconnectReason,
  LeaveRequest,
  ListParticipantsRequest,
  ListParticipantsResponse,
  ParticipantInfo_Kind,
  ParticipantInfo_State,
  PublishDataTrackRequest,
  RequestResponse_Reason,
  StoreDataBlobRequest,
  TrackSource,
  TrackType,
  UpdateParticipantMetadata,
} from "@livekit/protocol";
import { NEWEST } from "../../../src/kernel/http/serving/pages.ts";
import { RawClient } from "./harness/raw-client.ts";
import { openStage, type Stage } from "./harness/stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 120_000);
afterAll(() => stage.close());

const validate = async (token: string, path = "/rtc/v1") => {
  const response = await fetch(`${stage.server.url}${path}/validate?access_token=${token}`);
  return `${response.status} ${await response.text()}`;
};

async function code(call: Promise<unknown>): Promise<string> {
  return call.then(
    () => "done",
    (error: { code?: string }) => error.code ?? String(error),
  );
}

test("a member who may create keys sees the secret, which is audited, and a revoked key has none", async () => {
  const { server, projectId } = { server: stage.server, projectId: stage.server.projectId };
  const key = await server.runtime.write((unit) =>
    server.services.apiKeys.create(unit, projectId, { name: "shown", environment: "DEVELOPMENT" }),
  );
  const show = () =>
    server.runtime.write((unit) => server.services.apiKeys.revealSigningSecret(unit, projectId, key.id));
  const shown = await show();
  expect(shown).toEqual({ apiKey: key.publicId, apiSecret: expect.stringMatching(/^[0-9a-f]{64}$/) });
  expect(await show()).toEqual(shown);
  expect(key.key).not.toContain(shown.apiSecret);
  const entries = server.services.audit.list(projectId, { action: "api_key.secret_shown" }, NEWEST, 10);
  expect(entries.map(({ resourceId }) => resourceId)).toEqual([key.id, key.id]);
  expect(JSON.stringify(entries)).not.toContain(shown.apiSecret);
  await server.runtime.write((unit) => void server.services.apiKeys.revoke(unit, projectId, key.id));
  await expect(show()).rejects.toThrow("API key");
  const { apiKey: publicId, apiSecret: secret } = shown;
  expect(await validate(await stage.token("lobby", "ann", { key: publicId, secret }))).toMatch(/^401 /);
});

test("validation accepts a token or refuses it with the reason, without writing", async () => {
  expect(await validate(await stage.token("nobody-yet", "ann"))).toBe("200 success");
  expect(await validate(await stage.token("nobody-yet", "ann"), "/rtc")).toBe("200 success");
  expect(await stage.rooms.listRooms(["nobody-yet"])).toEqual([]);
  expect(await validate(await stage.token("lobby", "ann", { secret: "guessed" }))).toMatch(/^401 .*signature/);
  expect(await validate("nonsense")).toBe("401 the token is no JWT");
  for (const name of ["with space", "ü", "a/b#c%d~", "日本語 🙂", "O8437W3+jmz/Xy", "x".repeat(256)]) {
    expect(await validate(await stage.token("lobby", name))).toBe("200 success");
    expect(await validate(await stage.token(name, "ann"))).toBe("200 success");
  }
  for (const name of [" x", "x ", "a\u0007", "a\u0085b", "a\u202eb", "a\ud800", "x".repeat(257)]) {
    expect(await validate(await stage.token("lobby", name))).toMatch(/^401 .*identity must/);
    expect(await validate(await stage.token(name, "ann"))).toMatch(/^401 .*room must/);
  }
  expect(await validate(await stage.token("lobby", "ann", { grant: { roomJoin: false } }))).toMatch(/^401 .*roomJoin/);
  expect(await validate(await stage.token("lobby", "ann", { ttl: -60 }))).toBe("401 the token has expired");
  expect(await validate(await stage.token("lobby", "ann", { ttl: "40d" }))).toMatch(/^401 .*30 days/);
  expect(await validate(await stage.token("lobby", "ann", { metadata: "m".repeat(1_025) }))).toMatch(/^401 metadata/);
  const { status } = await fetch(`${stage.server.url}/rtc/v1?access_token=${await stage.token("lobby", "ann")}`);
  expect(status).toBe(426);
});

test("the server API manages rooms and participants in JSON", async () => {
  const room = await stage.rooms.createRoom({ name: "asked" });
  expect(room).toMatchObject({ name: "asked", numParticipants: 0 });
  expect((await stage.rooms.createRoom({ name: "asked" })).sid).toBe(room.sid);
  const options = { name: "Ann Ö.", attributes: { team: "red" }, metadata: "m" };
  const token = await stage.token("asked", "ann", options);
  const ann = await RawClient.open(stage.wsUrl, token);
  const { participant, room: joined } = await ann.hears("join");
  expect(joined?.sid).toBe(room.sid);
  expect(participant).toMatchObject({ identity: "ann", ...options, kind: ParticipantInfo_Kind.STANDARD });
  expect((await stage.rooms.listRooms(["asked"]))[0]?.numParticipants).toBe(1);
  expect((await stage.rooms.listParticipants("asked"))[0]?.sid).toBe(participant?.sid ?? "");

  await stage.rooms.updateParticipant("asked", "ann", {
    metadata: "new",
    attributes: { team: "blue" },
    permission: { canPublish: false, canSubscribe: true, canPublishData: true },
  });
  expect(await stage.rooms.getParticipant("asked", "ann")).toMatchObject({
    metadata: "new",
    attributes: { team: "blue" },
    name: "Ann Ö.",
    permission: { canPublish: false, canSubscribe: true },
  });
  const cid = { cid: "c1", type: TrackType.AUDIO, source: TrackSource.MICROPHONE };
  ann.send({ case: "addTrack", value: new AddTrackRequest(cid) });
  const refused = await ann.hears("requestResponse");
  expect(refused).toMatchObject({ reason: RequestResponse_Reason.NOT_ALLOWED, request: { case: "addTrack" } });

  // Out, and not back with this token, nor with one of another room's admin; with a new one, yes.
  await stage.rooms.removeParticipant("asked", "ann");
  expect((await ann.hears("leave")).reason).toBe(DisconnectReason.PARTICIPANT_REMOVED);
  await ann.isClosed();
  expect(await validate(token)).toMatch(/^401 .*(revoked|removed)/);
  const again = await RawClient.open(stage.wsUrl, await stage.token("asked", "ann", { ttl: 900 }));
  await again.hears("join");
  await stage.rooms.deleteRoom("asked");
  expect((await again.hears("leave")).reason).toBe(DisconnectReason.ROOM_DELETED);

  expect(await code(stage.rooms.listParticipants("asked"))).toBe("not_found");
  expect(await code(stage.rooms.updateRoomMetadata("asked", "x"))).toBe("not_found");
});

test("sources are echoed as the token names them, and enforced when they change", async () => {
  const { MICROPHONE, CAMERA, SCREEN_SHARE, SCREEN_SHARE_AUDIO } = TrackSource;
  for (const canPublishSources of [
    [CAMERA, MICROPHONE, SCREEN_SHARE, SCREEN_SHARE_AUDIO],
    [MICROPHONE],
    [CAMERA, MICROPHONE],
  ]) {
    const token = await stage.token("sources", "ann", { grant: { canPublishSources } });
    const ann = await RawClient.open(stage.wsUrl, token);
    expect((await ann.hears("join")).participant?.permission?.canPublishSources).toEqual(canPublishSources);
    ann.close();
  }
  const ann = await RawClient.open(stage.wsUrl, await stage.token("sources", "ann"));
  await ann.hears("join");
  const changed = await stage.rooms.updateParticipant("sources", "ann", {
    permission: { canPublish: true, canSubscribe: true, canPublishData: true, canPublishSources: [MICROPHONE] },
  });
  expect(changed.permission?.canPublishSources).toEqual([MICROPHONE]);
  ann.send({ case: "addTrack", value: new AddTrackRequest({ cid: "v", type: TrackType.VIDEO, source: CAMERA }) });
  await ann.hears("requestResponse", ({ reason }) => reason === RequestResponse_Reason.NOT_ALLOWED);
  ann.send({ case: "addTrack", value: new AddTrackRequest({ cid: "a", type: TrackType.AUDIO, source: MICROPHONE }) });
  await ann.hears("trackPublished", ({ cid }) => cid === "a");
  ann.send({
    case: "addTrack",
    value: new AddTrackRequest({ cid: "s", type: TrackType.AUDIO, source: SCREEN_SHARE_AUDIO }),
  });
  const refusals = () => ann.heard.filter((one) => one.case === "requestResponse").length;
  while (refusals() < 2) await Bun.sleep(10);
  const [session] = await stage.stoa.rooms.participants("sources");
  expect(session?.permissions).toMatchObject({ publishSources: ["microphone"] });
  await stage.rooms.updateParticipant("sources", "ann", { permission: { canPublish: true, canSubscribe: true } });
  expect((await stage.rooms.getParticipant("sources", "ann")).permission?.canPublishSources).toEqual([]);
  ann.close();
});

test("methods that are not served are unimplemented, whatever the token grants", async () => {
  for (const [path, grant] of [
    ["livekit.Egress/StartWebEgress", { roomRecord: true }],
    ["livekit.Ingress/CreateIngress", { ingressAdmin: true }],
    ["livekit.SIP/ListSIPInboundTrunk", {}],
    ["livekit.RoomService/NoSuchMethod", {}],
  ] as const) {
    const headers = {
      authorization: `Bearer ${await stage.token("x", "y", { grant: { roomJoin: false, ...grant } })}`,
      "content-type": "application/json",
    };
    const answer = await fetch(`${stage.server.url}/twirp/${path}`, { method: "POST", headers, body: "{}" });
    expect([path, answer.status, ((await answer.json()) as { code: string }).code]).toEqual([
      path,
      501,
      "unimplemented",
    ]);
  }
});

test("the server API works in protobuf, with Twirp's error codes", async () => {
  await stage.rooms.createRoom({ name: "binary" });
  const ask = async (method: string, token: string, body: Uint8Array) => {
    const response = await fetch(`${stage.server.url}/twirp/livekit.RoomService/${method}`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/protobuf" },
      body: new Uint8Array(body),
    });
    return { status: response.status, bytes: new Uint8Array(await response.arrayBuffer()) };
  };
  const body = new ListParticipantsRequest({ room: "binary" }).toBinary();
  const admin = await stage.token("binary", "server", { grant: { roomAdmin: true } });
  const { status, bytes } = await ask("ListParticipants", admin, body);
  expect([status, ListParticipantsResponse.fromBinary(bytes).participants]).toEqual([200, []]);
  const other = await stage.token("elsewhere", "server", { grant: { roomAdmin: true } });
  const denied = await ask("ListParticipants", other, body);
  expect(denied.status).toBe(403);
  expect(JSON.parse(Buffer.from(denied.bytes).toString()).code).toBe("permission_denied");
  expect((await ask("ListParticipants", admin, Buffer.from([0xff]))).status).toBe(400);
  expect((await ask("ListParticipants", "nonsense", body)).status).toBe(401);
});

test("unsupported requests are refused at once, and repeated ones get two responses", async () => {
  const ann = await RawClient.open(stage.wsUrl, await stage.token("refusals", "ann"));
  await ann.hears("join");
  ann.send({ case: "publishDataTrackRequest", value: new PublishDataTrackRequest({ pubHandle: 7, name: "d" }) });
  const refusal = await ann.hears("requestResponse");
  expect(refusal).toMatchObject({
    reason: RequestResponse_Reason.UNSUPPORTED_TYPE,
    request: { case: "publishDataTrack", value: { pubHandle: 7 } },
  });
  ann.send({ case: "storeDataBlobRequest", value: new StoreDataBlobRequest() });
  await ann.hears("requestResponse", ({ message }) => message.startsWith("storeDataBlobRequest"));
  ann.send({ case: "updateMetadata", value: new UpdateParticipantMetadata({ name: "Ann", requestId: 4 }) });
  expect((await ann.hears("requestResponse", ({ requestId }) => requestId === 4)).reason).toBe(
    RequestResponse_Reason.OK,
  );
  expect((await ann.hears("update")).participants[0]).toMatchObject({ identity: "ann", name: "Ann" });
  ann.send({ case: "ping", value: 1n });
  await ann.hears("pong");
  ann.close();
});

test("a reconnecting socket resumes its participant, and one that cannot is told to rejoin", async () => {
  const token = await stage.token("back", "ann");
  const ann = await RawClient.open(stage.wsUrl, token);
  const { participant } = await ann.hears("join");
  ann.close();
  await ann.isClosed();
  const back = await RawClient.open(stage.wsUrl, token, `&reconnect=1&sid=${participant?.sid}`);
  await back.hears("reconnect");
  expect((await back.hears("update")).participants.map(({ sid }) => sid)).toEqual([participant?.sid ?? ""]);
  expect(await stage.rooms.listParticipants("back")).toHaveLength(1);
  const stranger = await stage.token("back", "ben");
  const other = await RawClient.open(stage.wsUrl, stranger, `&reconnect=1&sid=${participant?.sid}`);
  expect(await other.hears("leave")).toMatchObject({ canReconnect: true, reason: DisconnectReason.STATE_MISMATCH });
  expect(back.closed).toBeNull();
  // The record is written a little later, and names the SDK with its version.
  const sdks = async () => (await stage.stoa.connections.list()).map(({ sdk }) => sdk);
  while (!(await sdks()).includes("livekit-go/2.4.0")) await Bun.sleep(20);
  back.close();
});

test("a reconnecting client learns who left and who joined meanwhile", async () => {
  const [token, others] = [await stage.token("meanwhile", "ann"), ["ben", "cay"]];
  const [ben, cay] = await Promise.all(others.map((identity) => stage.token("meanwhile", identity)));
  const gone = await RawClient.open(stage.wsUrl, ben ?? "");
  const ann = await RawClient.open(stage.wsUrl, token);
  const { participant, otherParticipants } = await ann.hears("join");
  // Announced after a while, because it asks for no media.
  const isBen = ({ identity }: { identity: string }) => identity === "ben";
  if (!otherParticipants.some(isBen)) await ann.hears("update", ({ participants }) => participants.some(isBen));
  ann.close();
  await ann.isClosed();
  gone.send({ case: "leave", value: new LeaveRequest() });
  await gone.isClosed();
  const came = await RawClient.open(stage.wsUrl, cay ?? "");
  await came.hears("join");

  const back = await RawClient.open(stage.wsUrl, token, `&reconnect=1&sid=${participant?.sid}`);
  await back.hears("reconnect");
  const states = (await back.hears("update")).participants.map(({ identity, state }) => [identity, state]);
  expect(states).toContainEqual(["ben", ParticipantInfo_State.DISCONNECTED]);
  await back.hears("update", ({ participants }) =>
    participants.some(({ identity, state }) => identity === "cay" && state !== ParticipantInfo_State.DISCONNECTED),
  );
  for (const one of [back, came]) one.close();
});
