import {
  type Job,
  JobState,
  JobStatus,
  JobType,
  type ServerInfo,
  TrackSource,
  type UpdateJobStatus,
} from "@livekit/protocol";
import type { RoomRow } from "../../../features/rooms/room.table.ts";
import type { RtcConnectionEvent } from "../../../features/sessions/events.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import { foreignName } from "../../../protocol/ids.ts";
import { sessionIdOf } from "../../../protocol/media/livekit-sids.ts";
import type { LiveRoom, RtcSession } from "../../signaling/rtc-session.ts";
import type { SignalingCore } from "../../signaling/signaling.ts";
import { type LivekitDetails, nanoseconds, participantInfo, roomInfo } from "../records.ts";
import type { SigningKeys, SignToken } from "../tokens.ts";
import { type AssignedJob, changeState, type Dispatch, type DispatchRequest, newJob, targetsOf } from "./dispatch.ts";
import { createRoomAgents, jobKey, type RoomAgents } from "./room-agents.ts";
import type { AgentWorker } from "./workers.ts";
import { type AcceptedJob, createWorkers } from "./workers.ts";

const TYPES = [JobType.JT_ROOM, JobType.JT_PUBLISHER, JobType.JT_PARTICIPANT];
const AGENT_TOKEN_MS = 3_600_000;
const MAX_DISPATCHES_PER_ROOM = 100;
/** Agents are dismissed when the room has been empty for this long after the last participant left. */
const EMPTY_AFTER_LEAVE_MS = 20_000;
/** Agents are dismissed when no participant has joined for this long. */
const EMPTY_FROM_START_MS = 300_000;
/** An agent that does not reconnect in time after a restart is replaced. */
const RECONNECT_WITHIN_MS = 30_000;
/** An agent that was told to stop is removed after this time. */
const STOP_GRACE_MS = 3_000;

type AgentsDeps = {
  signaling: SignalingCore;
  details: LivekitDetails;
  apiKeys: SigningKeys;
  signToken: SignToken;
  serverInfo: ServerInfo;
  find: (roomId: string) => RoomRow | undefined;
};

export type Agents = ReturnType<typeof createAgents>;

/** Dispatches agents: unnamed agents into every room, named agents on request. */
export function createAgents(runtime: Runtime, deps: AgentsDeps) {
  const { bus, now, timers, log } = runtime;
  const { signaling, details, apiKeys, signToken, serverInfo, find } = deps;
  const { registry, membership, watch } = signaling;
  const rooms = createRoomAgents(runtime, { find, registry });

  const workers = createWorkers(
    runtime,
    { watch, signer: apiKeys.signer, serverInfo },
    {
      free: (worker, isNew) => onWorkerFree(worker, isNew),
      jobChanged,
      jobsClaimed: (worker, jobIds) => void rooms.jobsOf(worker, jobIds),
    },
  );

  function fill(roomAgents: RoomAgents): void {
    // Most projects have no agents, so their rooms are not looked up.
    const row = workers.servesTenant(roomAgents) ? find(roomAgents.roomId) : undefined;
    if (!row) return;
    const live = registry.room(roomAgents.roomId);
    for (const dispatch of roomAgents.dispatches.values()) {
      forgetThoseWhoLeft(roomAgents, dispatch);
      for (const type of TYPES) {
        if (!workers.hasWorker(roomAgents, type, dispatch.agentName)) continue;
        for (const target of targetsOf(live?.sessions.values() ?? [], type)) {
          const key = jobKey(type, target?.id);
          if (dispatch.jobs.has(key)) continue;
          const job = jobFor(dispatch, type, target, row);
          const assigned: AssignedJob = { job, worker: null, state: "asking" };
          dispatch.jobs.set(key, assigned);
          assign(roomAgents, dispatch, key, assigned).catch((err) => {
            dispatch.jobs.delete(key);
            log.error({ err, roomId: roomAgents.roomId }, "livekit: agent job not assigned");
          });
        }
      }
    }
  }

  /**
   * Forgets the jobs for participants who have left, or each time that one joins again would add another. An agent may stay
   * longer than its participant, as with LiveKit's server, and its job is known as long as it is in the room.
   */
  function forgetThoseWhoLeft({ roomId }: RoomAgents, { jobs }: Dispatch): void {
    const agents = new Set<string>();
    // Only the newest job counts for an agent: a worker may give the same identity to all of its agents.
    for (const [key, assigned] of [...jobs].reverse()) {
      const { participant, state } = assigned.job;
      const identity = state?.participantIdentity ?? "";
      const isInRoom = !agents.has(identity) && registry.find(roomId, identity)?.kind === "agent";
      if (assigned.state === "running") agents.add(identity);
      if (!participant || registry.session(sessionIdOf(participant.sid) ?? "")) continue;
      if (assigned.state === "running" && isInRoom) continue;
      stop(assigned);
      jobs.delete(key);
    }
  }

  function jobFor(dispatch: Dispatch, type: JobType, target: RtcSession | null, row: RoomRow): Job {
    const participant = target ? participantInfo(target, details) : undefined;
    return newJob(dispatch, type, roomInfo(row, registry.room(row.id), details), participant);
  }

  async function assign(roomAgents: RoomAgents, dispatch: Dispatch, key: string, assigned: AssignedJob): Promise<void> {
    const { job } = assigned;
    const accepted = await workers.findWorker(roomAgents, job);
    if (accepted === "none") {
      dispatch.jobs.delete(key);
      return;
    }
    if (accepted === "declined") {
      assigned.state = "declined";
      return;
    }
    const identity = accepted.response.participantIdentity || `agent-${job.id}`;
    if (foreignName(identity) === null) {
      assigned.state = "declined";
      log.warn({ roomId: roomAgents.roomId, agentName: job.agentName }, "livekit: agent requested an invalid identity");
      return;
    }
    const token = await tokenFor(job.room?.name ?? "", identity, accepted);
    // The dispatch was withdrawn, the room was closed or the participant has left in the meantime.
    if (!rooms.isCurrent(roomAgents) || !roomAgents.dispatches.has(dispatch.id)) return;
    if (dispatch.jobs.get(key) !== assigned) return;
    assigned.state = "running";
    assigned.worker = accepted.worker;
    const startedAt = nanoseconds(now());
    job.state = new JobState({
      status: JobStatus.JS_RUNNING,
      participantIdentity: identity,
      workerId: accepted.worker.id,
      startedAt,
      updatedAt: startedAt,
    });
    accepted.worker.assign(job, token);
    if (job.type === JobType.JT_ROOM) rooms.saveInBackground(roomAgents, dispatch);
    dismissWhenAlone(roomAgents, EMPTY_FROM_START_MS);
  }

  function tokenFor(room: string, identity: string, { worker, registration, response }: AcceptedJob): Promise<string> {
    const {
      canPublish = true,
      canSubscribe = true,
      canPublishData = true,
      canUpdateMetadata = true,
      canPublishSources = [],
      hidden = false,
    } = registration.permissions ?? {};
    const claims = {
      kind: "agent",
      name: response.participantName,
      metadata: response.participantMetadata,
      attributes: { ...response.participantAttributes, "lk.agent_name": registration.agentName },
      video: {
        room,
        roomJoin: true,
        agent: true,
        canPublish,
        canSubscribe,
        canPublishData,
        hidden,
        canUpdateOwnMetadata: canUpdateMetadata,
        canPublishSources: canPublishSources.map((source) => TrackSource[source].toLowerCase()),
      },
    };
    return signToken(worker.key.publicId, identity, claims, now() + AGENT_TOKEN_MS);
  }

  function onWorkerFree({ key, registration }: AgentWorker, isNew: boolean): void {
    rooms.addTenant(key);
    for (const roomAgents of rooms.all()) {
      if (roomAgents.projectId !== key.projectId || roomAgents.environment !== key.environment) continue;
      for (const { agentName, jobs } of roomAgents.dispatches.values()) {
        if (!isNew || agentName !== registration?.agentName) continue;
        for (const [name, { state }] of jobs) if (state === "declined") jobs.delete(name);
      }
      fill(roomAgents);
    }
  }

  function jobChanged(worker: AgentWorker, { jobId, status, error }: UpdateJobStatus): void {
    for (const { roomAgents, dispatch, assigned } of rooms.jobsOf(worker, new Set([jobId]))) {
      const isOver = status === JobStatus.JS_SUCCESS || status === JobStatus.JS_FAILED;
      changeState(assigned.job, status, error, now(), isOver);
      if (!isOver) continue;
      assigned.state = "ended";
      if (dispatch.isSaved) rooms.saveInBackground(roomAgents, dispatch);
    }
  }

  function dismissWhenAlone(roomAgents: RoomAgents, afterMs: number): void {
    if (!rooms.isAlone(roomAgents.roomId)) return;
    roomAgents.cancelDismissal?.();
    roomAgents.cancelDismissal = timers.after(afterMs, () => {
      if (!rooms.isAlone(roomAgents.roomId) || !rooms.isCurrent(roomAgents)) return;
      rooms.close(roomAgents);
      for (const dispatch of roomAgents.dispatches.values()) withdraw(roomAgents, dispatch);
    });
  }

  /** Ends a dispatch: its agents are told to stop and removed a little later. */
  function withdraw(roomAgents: RoomAgents, dispatch: Dispatch): void {
    roomAgents.dispatches.delete(dispatch.id);
    rooms.remove(dispatch);
    for (const assigned of dispatch.jobs.values()) {
      if (!stop(assigned)) continue;
      const identity = assigned.job.state?.participantIdentity ?? "";
      timers.after(STOP_GRACE_MS, () => {
        const agent = registry.find(roomAgents.roomId, identity);
        if (agent?.kind === "agent") membership.dismiss(agent, "room_closed");
      });
    }
  }

  /** Returns false for a job that does not run. */
  function stop(assigned: AssignedJob): boolean {
    if (assigned.state !== "running") return false;
    assigned.state = "ended";
    changeState(assigned.job, JobStatus.JS_SUCCESS, "", now(), true);
    assigned.worker?.terminate(assigned.job.id);
    return true;
  }

  /** Replaces the agents that do not reconnect after a restart of this process. */
  function awaitReconnect(roomAgents: RoomAgents): void {
    const running = [...roomAgents.dispatches.values()].flatMap(({ jobs }) =>
      [...jobs].map((entry) => ({ jobs, entry })),
    );
    timers.after(RECONNECT_WITHIN_MS, () => {
      for (const { jobs, entry } of running) {
        const [key, { job, state }] = entry;
        const isBack = registry.find(roomAgents.roomId, job.state?.participantIdentity ?? "")?.kind === "agent";
        if (state === "running" && !isBack) jobs.delete(key);
      }
      if (rooms.isCurrent(roomAgents)) fill(roomAgents);
    });
  }

  function onConnectionEvent(event: RtcConnectionEvent): void {
    const { roomId, participantKind } = event;
    if (participantKind === "agent" || !rooms.tenants.has(event)) return;
    if (event.type === "started") {
      const live = registry.room(roomId);
      if (!live) return;
      const roomAgents = rooms.onFirstJoin(live, event.tokenId);
      roomAgents.cancelDismissal?.();
      roomAgents.cancelDismissal = null;
      fill(roomAgents);
      return;
    }
    const roomAgents = rooms.find(roomId);
    if (!roomAgents) return;
    if (event.type === "trackPublished") fill(roomAgents);
    else if (event.type === "left" && event.reason !== "restart" && rooms.isAlone(roomId))
      dismissWhenAlone(roomAgents, EMPTY_AFTER_LEAVE_MS);
  }
  bus.on("rtcConnection", ["started", "trackPublished", "left"], onConnectionEvent);
  bus.on("roomClosed", ({ roomId }) => {
    const roomAgents = rooms.find(roomId);
    if (!roomAgents) return;
    rooms.close(roomAgents);
    roomAgents.cancelDismissal?.();
    for (const dispatch of roomAgents.dispatches.values()) withdraw(roomAgents, dispatch);
  });

  return {
    connect: workers.connect,

    expect: rooms.expect,

    /** Restores dispatches after a restart; called once, before any participant joins. */
    restore(): void {
      for (const roomAgents of rooms.restore()) {
        awaitReconnect(roomAgents);
        dismissWhenAlone(roomAgents, EMPTY_FROM_START_MS);
      }
    },

    /** Null when the room has too many dispatches. With `alone` no unnamed agents join the room. */
    async dispatch(
      room: Pick<LiveRoom, "id" | "projectId" | "environment">,
      wanted: DispatchRequest,
      { alone = false } = {},
    ): Promise<Dispatch | null> {
      rooms.addTenant(room);
      const roomAgents = rooms.open(room);
      roomAgents.isDecided ||= alone;
      if (roomAgents.dispatches.size >= MAX_DISPATCHES_PER_ROOM) return null;
      const dispatch = rooms.add(roomAgents, wanted, alone);
      dismissWhenAlone(roomAgents, EMPTY_FROM_START_MS);
      await rooms.save(roomAgents, dispatch);
      fill(roomAgents);
      return dispatch;
    },

    withdraw(roomId: string, dispatchId: string): Dispatch | null {
      const roomAgents = rooms.find(roomId);
      const dispatch = roomAgents?.dispatches.get(dispatchId);
      if (!roomAgents || !dispatch) return null;
      withdraw(roomAgents, dispatch);
      return dispatch;
    },

    dispatchesIn(room: Tenant & { id: string }): Dispatch[] {
      rooms.addTenant(room);
      return [...(rooms.find(room.id)?.dispatches.values() ?? [])];
    },
  };
}
