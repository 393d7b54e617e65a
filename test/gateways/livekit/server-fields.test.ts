import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { MessageType } from "@bufbuild/protobuf";
import * as livekit from "@livekit/protocol";
import type { Participant } from "../../../src/rtc-client/participant/participant.ts";
import { sender } from "./harness/composed-room.ts";
import { RawClient } from "./harness/raw-client.ts";
import { openStage, type Stage } from "./harness/stage.ts";

const GUIDE = readFileSync(join(import.meta.dir, "../../../web/docs/livekit.md"), "utf8");
const ROOM = "every field";
const TRANSCODED = { participantIdentity: "i", roomName: ROOM };

/** The requests of all methods that are served. */
const METHODS: Record<string, MessageType> = {
  "RoomService/CreateRoom": livekit.CreateRoomRequest,
  "RoomService/ListRooms": livekit.ListRoomsRequest,
  "RoomService/DeleteRoom": livekit.DeleteRoomRequest,
  "RoomService/UpdateRoomMetadata": livekit.UpdateRoomMetadataRequest,
  "RoomService/ListParticipants": livekit.ListParticipantsRequest,
  "RoomService/GetParticipant": livekit.RoomParticipantIdentity,
  "RoomService/RemoveParticipant": livekit.RoomParticipantIdentity,
  "RoomService/MutePublishedTrack": livekit.MuteRoomTrackRequest,
  "RoomService/UpdateParticipant": livekit.UpdateParticipantRequest,
  "RoomService/MoveParticipant": livekit.MoveParticipantRequest,
  "RoomService/ForwardParticipant": livekit.ForwardParticipantRequest,
  "RoomService/PerformRpc": livekit.PerformRpcRequest,
  "RoomService/UpdateSubscriptions": livekit.UpdateSubscriptionsRequest,
  "RoomService/SendData": livekit.SendDataRequest,
  "AgentDispatchService/CreateDispatch": livekit.CreateAgentDispatchRequest,
  "AgentDispatchService/DeleteDispatch": livekit.DeleteAgentDispatchRequest,
  "AgentDispatchService/ListDispatch": livekit.ListAgentDispatchRequest,
  "Egress/StartRoomCompositeEgress": livekit.RoomCompositeEgressRequest,
  "Egress/StartParticipantEgress": livekit.ParticipantEgressRequest,
  "Egress/StartTrackCompositeEgress": livekit.TrackCompositeEgressRequest,
  "Egress/StartTrackEgress": livekit.TrackEgressRequest,
  "Egress/UpdateLayout": livekit.UpdateLayoutRequest,
  "Egress/UpdateStream": livekit.UpdateStreamRequest,
  "Egress/ListEgress": livekit.ListEgressRequest,
  "Egress/StopEgress": livekit.StopEgressRequest,
  "Ingress/CreateIngress": livekit.CreateIngressRequest,
  "Ingress/UpdateIngress": livekit.UpdateIngressRequest,
  "Ingress/ListIngress": livekit.ListIngressRequest,
  "Ingress/DeleteIngress": livekit.DeleteIngressRequest,
};

/** The fields that the methods read, by message. */
const READ: Record<string, string> = {
  CreateRoomRequest: "name emptyTimeout departureTimeout maxParticipants metadata agents",
  RoomAgentDispatch: "agentName metadata attributes",
  ListRoomsRequest: "names",
  DeleteRoomRequest: "room",
  UpdateRoomMetadataRequest: "room metadata",
  ListParticipantsRequest: "room",
  RoomParticipantIdentity: "room identity",
  MuteRoomTrackRequest: "room identity trackSid muted",
  UpdateParticipantRequest: "room identity metadata permission name attributes",
  ParticipantPermission: "canSubscribe canPublish canPublishData canPublishSources canUpdateMetadata",
  MoveParticipantRequest: "room identity destinationRoom",
  ForwardParticipantRequest: "room identity destinationRoom",
  PerformRpcRequest: "room destinationIdentity method payload responseTimeoutMs",
  UpdateSubscriptionsRequest: "room identity trackSids subscribe participantTracks",
  // A track is found by its own sid.
  ParticipantTracks: "participantSid trackSids",
  SendDataRequest: "room data kind destinationSids destinationIdentities topic nonce",
  CreateAgentDispatchRequest: "agentName room metadata attributes",
  DeleteAgentDispatchRequest: "dispatchId room",
  ListAgentDispatchRequest: "dispatchId room",
  RoomCompositeEgressRequest:
    "roomName layout audioOnly videoOnly file stream segments preset advanced fileOutputs streamOutputs segmentOutputs",
  ParticipantEgressRequest: "roomName identity screenShare preset advanced fileOutputs streamOutputs segmentOutputs",
  TrackCompositeEgressRequest:
    "roomName audioTrackId videoTrackId file stream segments preset advanced fileOutputs streamOutputs segmentOutputs",
  TrackEgressRequest: "roomName trackId file",
  EncodedFileOutput: "fileType filepath s3",
  DirectFileOutput: "filepath s3",
  SegmentedFileOutput: "filenamePrefix playlistName livePlaylistName segmentDuration filenameSuffix s3",
  StreamOutput: "protocol urls",
  S3Upload: "accessKey secret sessionToken region endpoint bucket forcePathStyle",
  EncodingOptions:
    "width height depth framerate audioCodec audioBitrate audioFrequency videoCodec videoBitrate keyFrameInterval",
  UpdateLayoutRequest: "egressId layout",
  UpdateStreamRequest: "egressId addOutputUrls removeOutputUrls",
  ListEgressRequest: "roomName egressId active pageToken",
  TokenPagination: "token",
  StopEgressRequest: "egressId",
  CreateIngressRequest:
    "inputType url name roomName participantIdentity participantName participantMetadata bypassTranscoding enableTranscoding audio video enabled",
  UpdateIngressRequest:
    "ingressId name roomName participantIdentity participantName participantMetadata bypassTranscoding enableTranscoding audio video enabled",
  IngressAudioOptions: "name source preset",
  IngressVideoOptions: "name source preset",
  ListIngressRequest: "pageToken roomName ingressId",
  DeleteIngressRequest: "ingressId",
};

/** Fields that are not read and change nothing that a caller relies on; the guide says of each what holds instead. */
const IGNORED: Record<string, string> = {
  RoomAgentDispatch: "restartPolicy",
  CreateAgentDispatchRequest: "restartPolicy",
  RoomParticipantIdentity: "revokeTokenTs",
  EncodedFileOutput: "disableManifest",
  DirectFileOutput: "disableManifest",
  SegmentedFileOutput: "disableManifest protocol",
};

type Refused = { message: string; fields: Record<string, unknown>; method: string; body(field: object): object };
const composed = (more: object) => ({ roomName: ROOM, ...more });
const file = (more: object) => composed({ fileOutputs: [{ filepath: "x", ...more }] });
const ENCODED = { imageOutputs: [{ filenamePrefix: "x" }], webhooks: [{ url: "https://example.com" }] };
const CLOUDS = { gcp: { bucket: "b" }, azure: { containerName: "c" }, aliOSS: { bucket: "b" } };

/** Fields that are refused with `unimplemented`, each with a value. */
const REFUSED: Refused[] = [
  {
    message: "CreateRoomRequest",
    method: "RoomService/CreateRoom",
    body: (more) => ({ name: "refused", ...more }),
    fields: {
      roomPreset: "p",
      nodeId: "n",
      tags: { a: "b" },
      egress: {},
      minPlayoutDelay: 1,
      maxPlayoutDelay: 1,
      syncStreams: true,
      replayEnabled: true,
    },
  },
  {
    message: "RoomAgentDispatch",
    method: "RoomService/CreateRoom",
    fields: { deployment: "d" },
    body: (more) => ({ name: "refused", agents: [{ agentName: "a", ...more }] }),
  },
  {
    message: "CreateAgentDispatchRequest",
    method: "AgentDispatchService/CreateDispatch",
    fields: { deployment: "d" },
    body: (more) => ({ room: ROOM, agentName: "a", ...more }),
  },
  {
    message: "ParticipantPermission",
    method: "RoomService/UpdateParticipant",
    fields: { hidden: true, recorder: true, agent: true, canSubscribeMetrics: true, canManageAgentSession: true },
    body: (more) => ({ room: ROOM, identity: "ann", permission: { canPublish: true, ...more } }),
  },
  {
    message: "RoomCompositeEgressRequest",
    method: "Egress/StartRoomCompositeEgress",
    body: composed,
    fields: { ...ENCODED, audioMixing: "DUAL_CHANNEL_AGENT", customBaseUrl: "https://example.com" },
  },
  {
    message: "ParticipantEgressRequest",
    method: "Egress/StartParticipantEgress",
    fields: ENCODED,
    body: (more) => composed({ identity: "ann", ...more }),
  },
  {
    message: "TrackCompositeEgressRequest",
    method: "Egress/StartTrackCompositeEgress",
    fields: ENCODED,
    body: (more) => composed({ audioTrackId: trackSid, ...more }),
  },
  {
    message: "TrackEgressRequest",
    method: "Egress/StartTrackEgress",
    fields: { websocketUrl: "wss://example.com", webhooks: ENCODED.webhooks },
    body: (more) => composed({ trackId: trackSid, ...("websocketUrl" in more ? {} : { file: {} }), ...more }),
  },
  {
    message: "EncodedFileOutput",
    method: "Egress/StartRoomCompositeEgress",
    fields: CLOUDS,
    body: file,
  },
  {
    message: "SegmentedFileOutput",
    method: "Egress/StartRoomCompositeEgress",
    fields: CLOUDS,
    body: (more) => composed({ segmentOutputs: [{ filenamePrefix: "x", ...more }] }),
  },
  {
    message: "DirectFileOutput",
    method: "Egress/StartTrackEgress",
    fields: CLOUDS,
    body: (more) => composed({ trackId: trackSid, file: more }),
  },
  {
    message: "S3Upload",
    method: "Egress/StartRoomCompositeEgress",
    fields: {
      assumeRoleArn: "a",
      assumeRoleExternalId: "e",
      tagging: "t",
      contentDisposition: "c",
      metadata: { a: "b" },
      proxy: { url: "http://example.com" },
    },
    body: (more) => file({ s3: { bucket: "b", accessKey: "k", secret: "s", ...more } }),
  },
  {
    message: "EncodingOptions",
    method: "Egress/StartRoomCompositeEgress",
    fields: { audioQuality: 1, videoQuality: 1 },
    body: (more) => composed({ fileOutputs: [{ filepath: "x" }], advanced: more }),
  },
  {
    message: "IngressAudioOptions",
    method: "Ingress/CreateIngress",
    fields: { options: { bitrate: 64_000 } },
    body: (more) => ({ ...TRANSCODED, inputType: "URL_INPUT", url: "https://example.com/x.mp4", audio: more }),
  },
  {
    message: "IngressVideoOptions",
    method: "Ingress/CreateIngress",
    fields: { options: { frameRate: 30 } },
    body: (more) => ({ ...TRANSCODED, inputType: "URL_INPUT", url: "https://example.com/x.mp4", video: more }),
  },
];

let stage: Stage;
let ann: Participant;
let trackSid: string;
beforeAll(async () => {
  stage = await openStage();
  await stage.rooms.createRoom({ name: ROOM });
  const room = (await stage.stoa.rooms.list()).find(({ name }) => name === ROOM);
  ann = await sender(stage, room?.id ?? "", "ann", null, 500);
  const tracks = async () => (await stage.rooms.getParticipant(ROOM, "ann")).tracks as { sid: string }[];
  while ((await tracks()).length === 0) await Bun.sleep(100);
  trackSid = (await tracks())[0]?.sid ?? "";
}, 120_000);
afterAll(async () => {
  await ann?.close();
  await stage?.close();
});

const words = (text: string | undefined): string[] => (text ?? "").split(" ").filter(Boolean);
const refusedOf = (message: string): string[] =>
  REFUSED.flatMap((one) => (one.message === message ? Object.keys(one.fields) : []));

test("every field of the server API's requests is read, refused or explained in the guide", () => {
  const seen = new Set<string>();
  const walk = (type: MessageType): void => {
    const name = type.typeName.replace("livekit.", "");
    if (seen.has(name)) return;
    seen.add(name);
    const fields = type.fields.list();
    const [refused, ignored] = [refusedOf(name), words(IGNORED[name])];
    const known = [...words(READ[name]), ...refused, ...ignored].sort();
    expect([name, ...known]).toEqual([name, ...fields.map(({ localName }) => localName).sort()]);
    for (const field of [...refused, ...ignored])
      expect([name, field, GUIDE.includes(`\`${field}\``)]).toEqual([name, field, true]);
    for (const field of fields) {
      if (field.kind === "message" && !refused.includes(field.localName)) walk(field.T);
    }
  };
  for (const type of Object.values(METHODS)) walk(type);
  expect([...seen].sort()).toEqual(Object.keys(READ).sort());
  const services = stage.server.services.livekitClients.services as Record<string, object>;
  const served = Object.entries(services).flatMap(([service, methods]) =>
    Object.keys(methods).map((method) => `${service.replace("livekit.", "")}/${method}`),
  );
  expect(served.sort()).toEqual(Object.keys(METHODS).sort());
});

test("a field that is not served is refused by its name, whether the request is JSON or protobuf", async () => {
  const grant = { roomAdmin: true, roomCreate: true, roomRecord: true, ingressAdmin: true };
  const authorization = `Bearer ${await stage.token(ROOM, "backend", { grant })}`;
  const ask = async (method: string, type: string, body: string | Uint8Array<ArrayBuffer>) => {
    const url = `${stage.server.url}/twirp/livekit.${method}`;
    const headers = { authorization, "content-type": type };
    return (await (await fetch(url, { method: "POST", headers, body })).json()) as { code?: string; msg?: string };
  };
  for (const { message, method, fields, body } of REFUSED)
    for (const [field, value] of Object.entries(fields)) {
      const request = body({ [field]: value }) as never;
      const binary = new Uint8Array((METHODS[method] as MessageType).fromJson(request).toBinary());
      for (const answer of [
        await ask(method, "application/json", JSON.stringify(request)),
        await ask(method, "application/protobuf", binary),
      ])
        expect([message, field, answer.code]).toEqual([message, field, "unimplemented"]);
    }
  expect(await stage.rooms.listRooms(["refused"])).toEqual([]);
  const egress = await ask("Egress/ListEgress", "application/json", "{}");
  expect(egress).toMatchObject({ items: [] });
}, 60_000);

test("a caller that repeats the permissions it was told changes nothing, even those of a hidden recorder", async () => {
  const grant = { hidden: true, recorder: true };
  const client = await RawClient.open(stage.wsUrl, await stage.token(ROOM, "recorder", { grant }));
  await client.hears("join");
  const { permission } = await stage.rooms.getParticipant(ROOM, "recorder");
  const changed = await stage.rooms.updateParticipant(ROOM, "recorder", { permission });
  expect(changed.permission).toEqual(permission);
  expect([permission.hidden, permission.recorder]).toEqual([true, true]);
  client.close();
});

test("createRoom returns a room that exists as it is, and asks for no agents again", async () => {
  const options = { name: "twice", metadata: "first", agents: [{ agentName: "helper" }] };
  await stage.rooms.createRoom(options);
  const again = await stage.rooms.createRoom({ ...options, metadata: "second", maxParticipants: 2 });
  expect(again).toMatchObject({ metadata: "first", maxParticipants: 0 });
  expect(await stage.dispatches.listDispatch("twice")).toHaveLength(1);
});
