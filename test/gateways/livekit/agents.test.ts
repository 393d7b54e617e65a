import { afterAll, beforeAll, expect, test } from "bun:test";
import {
  AddTrackRequest,
  DisconnectReason,
  JobStatus,
  JobType,
  ParticipantInfo_Kind,
  ParticipantPermission,
  TrackSource,
  TrackType,
  UpdateJobStatus,
  WorkerPing,
  WorkerStatus,
} from "@livekit/protocol";
import { RawClient } from "./harness/raw-client.ts";
import { RawWorker } from "./harness/raw-worker.ts";
import { openStage, type Stage } from "./harness/stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 120_000);
afterAll(() => stage.close());

const workerToken = () => stage.token("", "", { grant: { agent: true, roomJoin: false } });
const enters = async (room: string, identity: string, options = {}) => {
  const client = await RawClient.open(stage.wsUrl, await stage.token(room, identity, options));
  await client.hears("join");
  return client;
};
/** The agent comes in with the token of its job. */
const comes = async (token: string) => {
  const agent = await RawClient.open(stage.wsUrl, token);
  return { agent, joined: await agent.hears("join") };
};

test("an unnamed worker gets one job per room, joins as an agent, and is dismissed with the room", async () => {
  const worker = await RawWorker.open(stage.wsUrl, await workerToken());
  expect((await worker.hears("register")).serverInfo?.agentProtocol).toBe(1);
  worker.send({ case: "ping", value: new WorkerPing({ timestamp: 5n }) });
  expect((await worker.hears("pong")).lastTimestamp).toBe(5n);

  const ann = await enters("lobby", "ann");
  const { job, token } = await worker.assignment();
  expect(job).toMatchObject({ type: JobType.JT_ROOM, agentName: "", room: { name: "lobby" } });
  const { agent, joined } = await comes(token);
  expect(joined.participant).toMatchObject({
    identity: `agent-${job?.id}`,
    name: "Helper",
    attributes: { mood: "calm" },
    kind: ParticipantInfo_Kind.AGENT,
    permission: { canPublish: true, canSubscribe: true },
  });

  // No second worker is asked for the same room, and an agent brings no agent.
  const ben = await enters("lobby", "ben");
  await enters("another", "ann");
  await worker.assignment(2);
  expect(worker.heard.filter((one) => one.case === "availability")).toHaveLength(2);
  const cares = (await stage.dispatches.listDispatch("lobby")) as { state: { jobs: { id: string }[] } }[];
  expect(cares.map(({ state }) => state.jobs.map(({ id }) => id))).toEqual([[job?.id ?? ""]]);
  worker.send({
    case: "updateJob",
    value: new UpdateJobStatus({ jobId: job?.id ?? "", status: JobStatus.JS_RUNNING }),
  });

  await stage.rooms.deleteRoom("lobby");
  expect((await worker.hears("termination")).jobId).toBe(job?.id ?? "");
  expect((await agent.hears("leave")).reason).toBe(DisconnectReason.ROOM_DELETED);
  for (const one of [ann, ben, agent, worker]) one.close();
});

test("an agent has the permissions that its worker allows", async () => {
  const allowedPermissions = new ParticipantPermission({
    canPublish: true,
    canSubscribe: true,
    canPublishSources: [TrackSource.MICROPHONE],
    canUpdateMetadata: false,
  });
  const worker = await RawWorker.open(stage.wsUrl, await workerToken(), { agentName: "bound", allowedPermissions });
  await stage.dispatches.createDispatch("bounds", "bound");
  const { token } = await worker.assignment();
  const { agent, joined } = await comes(token);
  expect(joined.participant?.permission).toMatchObject({
    canPublish: true,
    canSubscribe: true,
    canPublishData: false,
    canUpdateMetadata: false,
    hidden: false,
    canPublishSources: [TrackSource.MICROPHONE],
  });
  for (const one of [agent, worker]) one.close();
});

test("a named agent joins only on request by API, token or room, and leaves when withdrawn", async () => {
  const worker = await RawWorker.open(stage.wsUrl, await workerToken(), { agentName: "helper" });
  const ann = await enters("plain", "ann");
  const made = await stage.dispatches.createDispatch("asked-for", "helper", { metadata: "be kind" });
  expect(made).toMatchObject({ agentName: "helper", room: "asked-for", metadata: "be kind" });
  const first = await worker.assignment();
  expect(first.job).toMatchObject({ dispatchId: made.id, metadata: "be kind", room: { name: "asked-for" } });
  const { agent, joined } = await comes(first.token);
  expect(joined.participant?.attributes).toEqual({ mood: "calm", "lk.agent_name": "helper" });

  const roomConfig = { agents: [{ agentName: "helper", metadata: "from a token" }] };
  const ben = await enters("by-token", "ben", { roomConfig });
  expect((await worker.assignment(2)).job).toMatchObject({ metadata: "from a token", room: { name: "by-token" } });
  await stage.rooms.createRoom({ name: "with-room", agents: [{ agentName: "helper" }] });
  expect((await worker.assignment(3)).job?.room?.name).toBe("with-room");
  expect(worker.heard.flatMap((one) => (one.case === "assignment" ? [one.value.job?.room?.name] : []))).not.toContain(
    "plain",
  );

  // Unnamed agents join beside it, except where the room was created with its agents.
  const anyone = await RawWorker.open(stage.wsUrl, await workerToken());
  const cay = [await enters("with-room", "cay"), await enters("asked-for", "cay")];
  await anyone.until(
    () => anyone.heard.some((one) => one.case === "assignment" && one.value.job?.room?.name === "asked-for"),
    "the unnamed agent's job",
  );
  const unnamed = anyone.heard.flatMap((one) => (one.case === "assignment" ? [one.value.job?.room?.name] : []));
  expect(unnamed).not.toContain("with-room");
  for (const one of [...cay, anyone]) one.close();

  await stage.dispatches.deleteDispatch(made.id, "asked-for");
  expect((await worker.hears("termination")).jobId).toBe(first.job?.id ?? "");
  await agent.hears("leave");
  expect(await stage.dispatches.getDispatch(made.id, "asked-for")).toBeUndefined();
  await expect(stage.dispatches.deleteDispatch(made.id, "asked-for")).rejects.toThrow("not found");
  for (const one of [ann, ben, worker]) one.close();
});

test("participants and publishers get jobs; full and declining workers are passed over, and later ones are asked", async () => {
  const agentName = "watcher";
  const busy = await RawWorker.open(stage.wsUrl, await workerToken(), { agentName, type: JobType.JT_PARTICIPANT });
  busy.report(WorkerStatus.WS_FULL);
  busy.send({ case: "ping", value: new WorkerPing({ timestamp: 1n }) });
  await busy.hears("pong");
  const shy = await RawWorker.open(stage.wsUrl, await workerToken(), {
    agentName,
    type: JobType.JT_PARTICIPANT,
    accepts: () => false,
  });
  await stage.dispatches.createDispatch("watched", agentName);
  const ann = await enters("watched", "ann");
  await shy.hears("availability");
  expect(busy.heard.some((one) => one.case === "availability")).toBe(false);

  const willing = await RawWorker.open(stage.wsUrl, await workerToken(), { agentName, type: JobType.JT_PARTICIPANT });
  expect((await willing.assignment()).job).toMatchObject({
    type: JobType.JT_PARTICIPANT,
    participant: { identity: "ann" },
  });
  // An announced track does not count yet: publishers are those whose media has arrived.
  const publishers = await RawWorker.open(stage.wsUrl, await workerToken(), { agentName, type: JobType.JT_PUBLISHER });
  const track = { cid: "c1", type: TrackType.AUDIO, source: TrackSource.MICROPHONE };
  ann.send({ case: "addTrack", value: new AddTrackRequest(track) });
  await ann.hears("trackPublished");
  publishers.send({ case: "ping", value: new WorkerPing({ timestamp: 1n }) });
  await publishers.hears("pong");
  expect(publishers.heard.some((one) => one.case === "availability")).toBe(false);
  for (const one of [busy, shy, willing, publishers, ann]) one.close();
});

test("only a token with the agent grant opens the worker socket, and malformed frames or a revoked key close it", async () => {
  const plain = await stage.token("lobby", "ann");
  const answer = await fetch(`${stage.server.url}/agent`, { headers: { authorization: `Bearer ${plain}` } });
  expect([answer.status, await answer.text()]).toEqual([401, "the token has no agent grant"]);
  expect((await fetch(`${stage.server.url}/agent`)).status).toBe(401);
  const headers = { authorization: `Bearer ${await workerToken()}` };
  expect((await fetch(`${stage.server.url}/agent`, { headers })).status).toBe(426);
  await expect(stage.dispatches.createDispatch("too-much", "helper", { metadata: "m".repeat(17_000) })).rejects.toThrow(
    "16384 bytes",
  );

  const odd = await RawWorker.open(stage.wsUrl, await workerToken(), { agentName: "odd" });
  odd.sendRaw("nonsense");
  await odd.until(() => odd.closed !== null, "the close");
  expect(odd.closed?.code).toBe(4400);

  const { server } = stage;
  const key = await server.runtime.write((unit) =>
    server.services.apiKeys.create(unit, server.projectId, { name: "w", environment: "DEVELOPMENT" }),
  );
  const secret = server.services.apiKeys.signingSecret(key.publicId);
  const token = await stage.token("", "", { grant: { agent: true, roomJoin: false }, key: key.publicId, secret });
  const worker = await RawWorker.open(stage.wsUrl, token, { agentName: "revoked" });
  await server.runtime.write((unit) => void server.services.apiKeys.revoke(unit, server.projectId, key.id));
  await worker.until(() => worker.closed !== null, "the close");
  expect(worker.closed?.code).toBe(4401);
});
