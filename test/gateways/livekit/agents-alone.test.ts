import { afterAll, beforeAll, expect, test } from "bun:test";
import {
  AvailabilityResponse,
  JobType,
  MigrateJobRequest,
  RegisterWorkerRequest,
  ServerMessage,
  WorkerMessage,
} from "@livekit/protocol";
import { decodeJwt } from "jose";
import type { SocketEvents, TopicSocket } from "../../../src/kernel/socket/sockets.ts";
import { type RtcServer, rtcServer, settled, until } from "../../harness/rtc.ts";

let server: RtcServer;
beforeAll(async () => {
  server = await rtcServer();
});
afterAll(() => server.close());

/** A worker at the other end of a socket that never leaves the process. */
function openWorker(at: RtcServer = server) {
  const { agents } = at.services.livekitClients;
  const key = at.services.apiKeys.signer(/^svk_dev_(\w+)\./.exec(at.key)?.[1] ?? "");
  if (!key) throw new Error("there is no key");
  const heard: ServerMessage["message"][] = [];
  const socket: TopicSocket = {
    send() {},
    sendTogether() {},
    subscribe() {},
    unsubscribe() {},
    close() {},
    bufferedBytes: 0,
    sendBytes: (data) => void heard.push(ServerMessage.fromBinary(data).message),
    ping: () => events.pong?.(),
  };
  const events: SocketEvents = agents.connect(socket, key);
  return {
    of: (name: string) => heard.filter((one) => one.case === name),
    say(message: WorkerMessage["message"]): void {
      const bytes = Buffer.from(new WorkerMessage({ message }).toBinary());
      events.received(null, bytes.length, bytes);
    },
  };
}

const jobsOf = (worker: ReturnType<typeof openWorker>) =>
  worker.of("availability").map((asked) => (asked.case === "availability" ? asked.value.job?.id : undefined));

/** In steps in which the worker's socket can be asked whether it is still there. */
async function pass(ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= 5_000) {
    server.clock.advance(Math.min(left, 5_000));
    await settled();
  }
}

test("an agent joins users of our own SDK, and is stopped and removed a while after the last one left", async () => {
  const worker = openWorker();
  worker.say({ case: "register", value: new RegisterWorkerRequest() });
  const roomId = await server.room("waiting");
  const ann = await server.joined(roomId, "ann");
  await until(() => worker.of("availability").length === 1);
  const [asked] = worker.of("availability");
  const jobId = asked?.case === "availability" ? (asked.value.job?.id ?? "") : "";
  const answer = { jobId, available: true, participantIdentity: "helper", participantName: "Helper" };
  worker.say({ case: "availability", value: new AvailabilityResponse(answer) });
  await until(() => worker.of("assignment").length === 1);
  const [assigned] = worker.of("assignment");
  const token = assigned?.case === "assignment" ? assigned.value.token : "";
  expect(decodeJwt(token)).toMatchObject({ sub: "helper", kind: "agent", video: { room: "waiting", roomJoin: true } });
  const agent = await server.joined(roomId, "helper", { mint: { kind: "agent" } });

  await ann.ask("room.leave");
  await pass(19_000);
  const ben = await server.joined(roomId, "ben");
  await pass(60_000);
  expect(worker.of("termination")).toEqual([]);
  expect(worker.of("availability")).toHaveLength(1);

  await ben.ask("room.leave");
  await pass(19_999);
  expect(worker.of("termination")).toEqual([]);
  await pass(1);
  expect(worker.of("termination")).toMatchObject([{ value: { jobId } }]);
  expect(agent.closed).toBeNull();
  await pass(3_000);
  expect(agent.closed).toEqual({ code: 4410, reason: "room_closed" });

  // The next participant finds a room without agents, so that one is dispatched again.
  await server.joined(roomId, "ann");
  await until(() => worker.of("availability").length === 2);
});

test("after a restart a running agent may reconnect, and is replaced when it does not", async () => {
  const { agents } = server.services.livekitClients;
  const roomId = await server.room("restarted");
  const room = server.services.rooms.byId(roomId);
  if (!room) throw new Error("there is no room");
  const worker = openWorker();
  worker.say({ case: "register", value: new RegisterWorkerRequest({ agentName: "named" }) });
  const wanted = { agentName: "named", metadata: "be kind", attributes: { tone: "calm" } };
  const made = await agents.dispatch(room, wanted);
  await server.joined(roomId, "ann");
  await until(() => worker.of("availability").length === 1);
  const jobId = jobsOf(worker)[0] ?? "";
  const answer = { jobId, available: true, participantIdentity: "named-agent" };
  worker.say({ case: "availability", value: new AvailabilityResponse(answer) });
  await until(() => worker.of("assignment").length === 1);
  await server.runtime.write(() => {});

  const restarts = () => {
    agents.restore();
    const [dispatch] = agents.dispatchesIn(room).filter(({ agentName }) => agentName === "named");
    expect(dispatch).toMatchObject({ id: made?.id ?? "", ...wanted });
    expect([...(dispatch?.jobs.values() ?? [])]).toMatchObject([
      { job: { id: jobId }, state: "running", worker: null },
    ]);
  };
  // The agent comes back, and so does its worker, which reports that it still has the job.
  const agent = await server.joined(roomId, "named-agent", { mint: { kind: "agent" } });
  restarts();
  worker.say({ case: "migrateJob", value: new MigrateJobRequest({ jobIds: [jobId, "another"] }) });
  await pass(60_000);
  expect(jobsOf(worker)).toEqual([jobId]);

  await agent.ask("room.leave");
  restarts();
  await pass(29_999);
  expect(jobsOf(worker)).toEqual([jobId]);
  await pass(1);
  await until(() => worker.of("availability").length === 2);

  // With the room everything of it is gone, on record too.
  const owner = { projectId: room.projectId, environment: room.environment, roomId };
  await server.runtime.write((unit) => void server.services.rooms.close(unit, owner));
  await server.runtime.write(() => {});
  agents.restore();
  expect(agents.dispatchesIn(room)).toEqual([]);
});

test("participants who were in a room before their project had agents get the first unnamed one only", async () => {
  const fresh = await rtcServer();
  const { agents } = fresh.services.livekitClients;
  const [early, late] = [await fresh.room("early"), await fresh.room("late")];
  await fresh.joined(early, "ann");
  const rowOf = (roomId: string) => fresh.services.rooms.find({ projectId: fresh.projectId, roomId });
  const named = { agentName: "named", metadata: "", attributes: {} };
  const asking = async (roomId: string, identity: string) => {
    const { token, tokenId } = await fresh.mint(roomId, identity);
    const forget = agents.expect({ ...rowOf(roomId), tokenId }, [named]);
    expect((await fresh.connect(token).join()).type).toBe("ack");
    forget();
  };
  await asking(early, "ben");
  await asking(late, "cleo");
  expect(agents.dispatchesIn(rowOf(early)).map(({ agentName }) => agentName)).toEqual([""]);
  expect(agents.dispatchesIn(rowOf(late)).map(({ agentName }) => agentName)).toEqual(["named"]);

  const worker = openWorker(fresh);
  worker.say({ case: "register", value: new RegisterWorkerRequest() });
  await until(() => worker.of("availability").length === 1);
  expect(worker.of("availability")).toMatchObject([{ value: { job: { room: { name: "early" } } } }]);
  await fresh.close();
});

test("a participant who joins again and again leaves no jobs behind, and an agent that stays keeps its own", async () => {
  const fresh = await rtcServer();
  const { agents } = fresh.services.livekitClients;
  const room = fresh.services.rooms.find({ projectId: fresh.projectId, roomId: await fresh.room("rejoined") });
  const [own, shared, shy] = ["own", "shared", "shy"].map((agentName) => {
    const worker = openWorker(fresh);
    worker.say({ case: "register", value: new RegisterWorkerRequest({ agentName, type: JobType.JT_PARTICIPANT }) });
    return worker;
  }) as [ReturnType<typeof openWorker>, ReturnType<typeof openWorker>, ReturnType<typeof openWorker>];
  const wanted = (agentName: string) => ({ agentName, metadata: "", attributes: {} });
  const dispatches = [];
  for (const name of ["own", "shared", "shy"])
    dispatches.push(await agents.dispatch(room, wanted(name), { alone: true }));
  let asked = 0;
  /** The n-th participant gets an agent of its own, one whose identity all share, and one that declines. */
  async function joins(identity: string) {
    const client = await fresh.joined(room.id, identity);
    asked += 1;
    await until(() => [own, shared, shy].every((worker) => worker.of("availability").length === asked));
    const answer = (worker: typeof own, available: boolean, participantIdentity: string) => {
      const value = new AvailabilityResponse({ jobId: jobsOf(worker).at(-1) ?? "", available, participantIdentity });
      worker.say({ case: "availability", value });
    };
    answer(own, true, `agent-${asked}`);
    answer(shared, true, "helper");
    answer(shy, false, "");
    await until(() => [own, shared].every((worker) => worker.of("assignment").length === asked));
    return client;
  }
  await joins("ben");
  const first = await joins("ann");
  const stays = await fresh.joined(room.id, "agent-2", { mint: { kind: "agent" } });
  await fresh.joined(room.id, "helper", { mint: { kind: "agent" } });
  await first.ask("room.leave");
  for (let n = 0; n < 5; n++) await (await joins("ann")).ask("room.leave");
  await joins("ann");
  // Ben's, that of Ann who is here now, and one for the agent that has stayed.
  expect(dispatches.map((dispatch) => dispatch?.jobs.size)).toEqual([3, 3, 2]);
  expect(own.of("termination")).toHaveLength(5);
  expect(stays.closed).toBeNull();

  const left = jobsOf(own)[1] ?? "";
  agents.withdraw(room.id, dispatches[0]?.id ?? "");
  expect(own.of("termination")).toContainEqual(
    expect.objectContaining({ value: expect.objectContaining({ jobId: left }) }),
  );
  await fresh.close();
});

test("no agent is sent for a participant who has left before a worker answered", async () => {
  const fresh = await rtcServer();
  const { agents } = fresh.services.livekitClients;
  const room = fresh.services.rooms.find({ projectId: fresh.projectId, roomId: await fresh.room("gone") });
  const worker = openWorker(fresh);
  worker.say({ case: "register", value: new RegisterWorkerRequest({ type: JobType.JT_PARTICIPANT }) });
  const ann = await fresh.joined(room.id, "ann");
  await until(() => worker.of("availability").length === 1);
  await fresh.joined(room.id, "ben");
  await until(() => worker.of("availability").length === 2);
  await ann.ask("room.leave");
  await fresh.joined(room.id, "cay");
  await until(() => worker.of("availability").length === 3);
  for (const jobId of jobsOf(worker))
    worker.say({ case: "availability", value: new AvailabilityResponse({ jobId: jobId ?? "", available: true }) });
  await until(() => worker.of("assignment").length === 2);
  await settled();
  expect(worker.of("assignment")).toMatchObject([
    { value: { job: { participant: { identity: "ben" } } } },
    { value: { job: { participant: { identity: "cay" } } } },
  ]);
  expect(agents.dispatchesIn(room)[0]?.jobs.size).toBe(2);
  await fresh.close();
});

test("the first worker of a project gets a job for a room with participants", async () => {
  const fresh = await rtcServer();
  const [full, empty] = [await fresh.room("full"), await fresh.room("empty")];
  await fresh.joined(full, "ann");
  const left = await fresh.joined(empty, "ben");
  await left.ask("room.leave");
  const worker = openWorker(fresh);
  worker.say({ case: "register", value: new RegisterWorkerRequest() });
  await until(() => worker.of("availability").length === 1);
  await settled();
  expect(worker.of("availability")).toMatchObject([{ value: { job: { room: { name: "full" } } } }]);
  await fresh.close();
});
