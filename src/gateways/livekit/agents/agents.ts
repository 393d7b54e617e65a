import { type Job, JobState, JobStatus, JobType, type ServerInfo, type UpdateJobStatus } from "@livekit/protocol";
import type { RoomRow } from "../../../features/rooms/room.table.ts";
import type { RtcConnectionEvent } from "../../../features/sessions/events.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import { IDENTITY_PATTERN } from "../../../protocol/ids.ts";
import type { LiveRoom, RtcSession } from "../../signaling/rtc-session.ts";
import type { SignalingCore } from "../../signaling/signaling.ts";
import { type LivekitDetails, participantInfo, roomInfo } from "../records.ts";
import type { SigningKeys } from "../tokens.ts";
import type { SignToken } from "../issued-token.ts";
import { changeState, type Dispatch, newJob, type JobSlot, targetsOf, type DispatchRequest } from "./dispatch.ts";
import { createRoomAgents, type RoomAgents, taskKey } from "./room-agents.ts";
import type { AgentWorker } from "./worker.ts";
import { createWorkers, type AcceptedJob } from "./workers.ts";

const TYPES = [JobType.JT_ROOM, JobType.JT_PUBLISHER, JobType.JT_PARTICIPANT];
const IDENTITY = new RegExp(IDENTITY_PATTERN);
const AGENT_TOKEN_MS = 3_600_000;
const MAX_DISPATCHES_PER_ROOM = 100;
/** Agents whom everybody has left wait this long for somebody to come back; those to whom nobody came, longer. */
const ALONE_AFTER_MS = 20_000;
const NOBODY_CAME_MS = 300_000;
/** How long after a start an agent of before it has to come back; another is asked for then. */
const RETURN_WITHIN_MS = 30_000;
/** How long an agent that was told to stop has to say goodbye. */
const GOODBYE_MS = 3_000;

type AgentsDeps = {
  translation: SignalingCore;
  foreign: LivekitDetails;
  apiKeys: SigningKeys;
  writeToken: SignToken;
  serverInfo: ServerInfo;
  /** The room as it is on record; undefined when there is none any more. */
  find: (roomId: string) => RoomRow | undefined;
};

export type Agents = ReturnType<typeof createAgents>;

/** Brings agents into rooms: unnamed ones into every room, named ones where they are asked for. */
export function createAgents(runtime: Runtime, deps: AgentsDeps) {
  const { bus, now, timers, log } = runtime;
  const { translation, foreign, apiKeys, writeToken, serverInfo, find } = deps;
  const { registry, membership, watch } = translation;
  const staffs = createRoomAgents(runtime, { find, registry });

  const workers = createWorkers(
    runtime,
    { watch, signer: apiKeys.signer, serverInfo },
    {
      free: (worker, isNew) => freed(worker, isNew),
      jobChanged,
      stillHas: (worker, jobIds) => void staffs.tasksOf(worker, jobIds),
    },
  );

  /** Asks for every agent that is wanted and neither there nor asked for. */
  function fill(staff: RoomAgents): void {
    // Most projects have no agents: nothing is looked up for their rooms.
    const row = workers.servesTenant(staff) ? find(staff.roomId) : undefined;
    if (!row) return;
    const live = registry.room(staff.roomId);
    for (const dispatch of staff.dispatches.values()) {
      for (const type of TYPES) {
        if (!workers.hasWorker(staff, type, dispatch.agentName)) continue;
        for (const target of targetsOf(live?.sessions.values() ?? [], type)) {
          const key = taskKey(type, target?.id);
          if (dispatch.tasks.has(key)) continue;
          const job = jobFor(dispatch, type, target, row);
          const task: JobSlot = { job, worker: null, state: "asking" };
          dispatch.tasks.set(key, task);
          hire(staff, dispatch, key, task).catch((err) => {
            dispatch.tasks.delete(key);
            log.error({ err, roomId: staff.roomId }, "an agent could not be brought into a room");
          });
        }
      }
    }
  }

  function jobFor(dispatch: Dispatch, type: JobType, target: RtcSession | null, row: RoomRow): Job {
    const { id, name, createdAt } = row;
    const live = registry.room(id) ?? { id, name, recording: false, sessions: new Map() };
    const participant = target ? participantInfo(target, foreign) : undefined;
    return newJob(dispatch, type, roomInfo(live, createdAt), participant);
  }

  async function hire(staff: RoomAgents, dispatch: Dispatch, key: string, task: JobSlot): Promise<void> {
    const { job } = task;
    const hired = await workers.findWorker(staff, job);
    if (hired === "none") {
      dispatch.tasks.delete(key);
      return;
    }
    if (hired === "declined") {
      task.state = "declined";
      return;
    }
    const identity = hired.answer.participantIdentity || `agent-${job.id}`;
    if (!IDENTITY.test(identity)) {
      task.state = "declined";
      log.warn(
        { roomId: staff.roomId, agentName: job.agentName },
        "an agent wants an identity that is not served here",
      );
      return;
    }
    const token = await tokenFor(job.room?.name ?? "", identity, hired);
    // Nobody wants it any more: it was withdrawn, or the room has ended meanwhile.
    if (!staffs.isCurrent(staff) || !staff.dispatches.has(dispatch.id)) return;
    task.state = "running";
    task.worker = hired.worker;
    const startedAt = BigInt(now()) * 1_000_000n;
    job.state = new JobState({
      ...{ status: JobStatus.JS_RUNNING, participantIdentity: identity, workerId: hired.worker.id },
      ...{ startedAt, updatedAt: startedAt },
    });
    hired.worker.assign(job, token);
    if (job.type === JobType.JT_ROOM) staffs.note(staff, dispatch);
    dismissWhenAlone(staff, NOBODY_CAME_MS);
  }

  function tokenFor(room: string, identity: string, { worker, offer, answer }: AcceptedJob): Promise<string> {
    const { canPublish = true, canSubscribe = true, canPublishData = true, hidden = false } = offer.permissions ?? {};
    const claims = {
      kind: "agent",
      name: answer.participantName,
      metadata: answer.participantMetadata,
      attributes: { ...answer.participantAttributes, "lk.agent_name": offer.agentName },
      video: {
        ...{ room, roomJoin: true, agent: true, canPublish, canSubscribe, canPublishData, hidden },
        canUpdateOwnMetadata: true,
      },
    };
    return writeToken(worker.key.publicId, identity, claims, now() + AGENT_TOKEN_MS);
  }

  function freed({ key, registration }: AgentWorker, isNew: boolean): void {
    staffs.attend(key);
    for (const staff of staffs.all()) {
      if (staff.projectId !== key.projectId || staff.environment !== key.environment) continue;
      for (const { agentName, tasks } of staff.dispatches.values()) {
        if (!isNew || agentName !== registration?.agentName) continue;
        for (const [name, { state }] of tasks) if (state === "declined") tasks.delete(name);
      }
      fill(staff);
    }
  }

  function jobChanged(worker: AgentWorker, { jobId, status, error }: UpdateJobStatus): void {
    for (const { staff, dispatch, task } of staffs.tasksOf(worker, new Set([jobId]))) {
      const isOver = status === JobStatus.JS_SUCCESS || status === JobStatus.JS_FAILED;
      changeState(task.job, status, error, now(), isOver);
      if (!isOver) continue;
      task.state = "ended";
      if (dispatch.isKept) staffs.note(staff, dispatch);
    }
  }

  function dismissWhenAlone(staff: RoomAgents, afterMs: number): void {
    if (!staffs.isAlone(staff.roomId)) return;
    staff.cancelDismissal?.();
    staff.cancelDismissal = timers.after(afterMs, () => {
      if (!staffs.isAlone(staff.roomId) || !staffs.isCurrent(staff)) return;
      staffs.close(staff);
      for (const dispatch of staff.dispatches.values()) withdraw(staff, dispatch);
    });
  }

  /** Ends what was asked for: its agents are told, and go in any case a little later. */
  function withdraw(staff: RoomAgents, dispatch: Dispatch): void {
    staff.dispatches.delete(dispatch.id);
    staffs.forget(dispatch);
    for (const task of dispatch.tasks.values()) {
      if (task.state !== "running") continue;
      task.state = "ended";
      changeState(task.job, JobStatus.JS_SUCCESS, "", now(), true);
      task.worker?.terminate(task.job.id);
      const identity = task.job.state?.participantIdentity ?? "";
      timers.after(GOODBYE_MS, () => {
        const agent = registry.find(staff.roomId, identity);
        if (agent?.kind === "agent") membership.dismiss(agent, "room_closed");
      });
    }
  }

  /** An agent of before this process that has not come back is asked for anew. */
  function awaitReturn(staff: RoomAgents): void {
    const running = [...staff.dispatches.values()].flatMap(({ tasks }) =>
      [...tasks].map((named) => ({ tasks, named })),
    );
    timers.after(RETURN_WITHIN_MS, () => {
      for (const { tasks, named } of running) {
        const [key, { job, state }] = named;
        const isBack = registry.find(staff.roomId, job.state?.participantIdentity ?? "")?.kind === "agent";
        if (state === "running" && !isBack) tasks.delete(key);
      }
      if (staffs.isCurrent(staff)) fill(staff);
    });
  }

  function heard(fact: RtcConnectionEvent): void {
    const { roomId, participantKind } = fact;
    if (participantKind === "agent" || !staffs.attended.has(fact)) return;
    if (fact.type === "started") {
      const live = registry.room(roomId);
      if (!live) return;
      const staff = staffs.enter(live, fact.tokenId);
      staff.cancelDismissal?.();
      staff.cancelDismissal = null;
      fill(staff);
      return;
    }
    const staff = staffs.of(roomId);
    if (!staff) return;
    if (fact.type === "trackPublished") fill(staff);
    else if (fact.type === "left" && fact.reason !== "restart" && staffs.isAlone(roomId))
      dismissWhenAlone(staff, ALONE_AFTER_MS);
  }
  bus.on("rtcConnection", ["started", "trackPublished", "left"], heard);
  bus.on("roomClosed", ({ roomId }) => {
    const staff = staffs.of(roomId);
    if (!staff) return;
    staffs.close(staff);
    staff.cancelDismissal?.();
    for (const dispatch of staff.dispatches.values()) withdraw(staff, dispatch);
  });

  return {
    connect: workers.connect,

    expect: staffs.expect,

    /** What rooms were to have before this process; once, before anybody comes in. */
    restore(): void {
      for (const staff of staffs.restore()) {
        awaitReturn(staff);
        dismissWhenAlone(staff, NOBODY_CAME_MS);
      }
    },

    /** Null: the room has as many as it may. `alone`: nobody else comes by itself. */
    async dispatch(
      room: Pick<LiveRoom, "id" | "projectId" | "environment">,
      wanted: DispatchRequest,
      { alone = false } = {},
    ): Promise<Dispatch | null> {
      staffs.attend(room);
      const staff = staffs.open(room);
      staff.isDecided ||= alone;
      if (staff.dispatches.size >= MAX_DISPATCHES_PER_ROOM) return null;
      const dispatch = staffs.add(staff, wanted, alone);
      dismissWhenAlone(staff, NOBODY_CAME_MS);
      await staffs.keep(staff, dispatch);
      fill(staff);
      return dispatch;
    },

    withdraw(roomId: string, dispatchId: string): Dispatch | null {
      const staff = staffs.of(roomId);
      const dispatch = staff?.dispatches.get(dispatchId);
      if (!staff || !dispatch) return null;
      withdraw(staff, dispatch);
      return dispatch;
    },

    dispatchesIn(room: Tenant & { id: string }): Dispatch[] {
      staffs.attend(room);
      return [...(staffs.of(room.id)?.dispatches.values() ?? [])];
    },
  };
}
