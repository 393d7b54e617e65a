import { Job, JobState, JobStatus, JobType } from "@livekit/protocol";
import type { Runtime } from "../../../kernel/runtime.ts";
import { sameTenant, type Tenant, tenantSet } from "../../../kernel/tenant.ts";
import { roomSid } from "../../../protocol/media/livekit-sids.ts";
import type { LiveRoom, SessionRegistry } from "../../signaling/rtc-session.ts";
import { type DispatchRow, dispatchStore } from "./dispatch.store.ts";
import { type AssignedJob, type Dispatch, type DispatchRequest, newDispatch, UNNAMED } from "./dispatch.ts";
import type { AgentWorker } from "./workers.ts";

const ROOM_JOB = `${JobType.JT_ROOM} `;

export const jobKey = (type: JobType, sessionId: string | undefined) => `${type} ${sessionId ?? ""}`;

/** The agents of one room, from the first participant's join until the last participant has left. */
export type RoomAgents = {
  readonly projectId: string;
  readonly environment: LiveRoom["environment"];
  readonly roomId: string;
  readonly dispatches: Map<string, Dispatch>;
  /** The room's creator or first participant has decided which agents join without a request. */
  isDecided: boolean;
  cancelDismissal: (() => void) | null;
};

type RoomRef = Pick<LiveRoom, "id" | "projectId" | "environment">;
type KnownRoom = RoomRef & { name: string; status: "ACTIVE" | "CLOSED" };

type RoomAgentsDeps = { find: (roomId: string) => KnownRoom | undefined; registry: SessionRegistry };

export function createRoomAgents({ db, write, log, now }: Runtime, { find, registry }: RoomAgentsDeps) {
  const store = dispatchStore(db);
  const byRoom = new Map<string, RoomAgents>();
  /** The dispatches that are requested by pending joins, by token. */
  const requested = new Map<string, DispatchRequest[]>();
  /** The projects that have agents or have requested one; rooms of other projects are ignored. */
  const tenants = tenantSet();
  const failed = (err: unknown) => log.error({ err }, "livekit: agent dispatch not saved");

  function open({ id: roomId, projectId, environment }: RoomRef): RoomAgents {
    const known = byRoom.get(roomId);
    if (known) return known;
    const roomAgents = {
      roomId,
      projectId,
      environment,
      dispatches: new Map(),
      isDecided: false,
      cancelDismissal: null,
    };
    byRoom.set(roomId, roomAgents);
    return roomAgents;
  }

  function add(roomAgents: RoomAgents, wanted: DispatchRequest, alone: boolean): Dispatch {
    const dispatch = newDispatch(wanted, now(), alone);
    roomAgents.dispatches.set(dispatch.id, dispatch);
    return dispatch;
  }

  const isAlone = (roomId: string): boolean =>
    ![...(registry.room(roomId)?.sessions.values() ?? [])].some(({ kind }) => kind !== "agent");

  /** Unnamed dispatches are saved only when an agent joins, because most rooms have no agents. */
  function onFirstJoin(live: LiveRoom, tokenId: string | null): RoomAgents {
    const roomAgents = open(live);
    if (roomAgents.isDecided) return roomAgents;
    roomAgents.isDecided = true;
    const wanted = tokenId === null ? undefined : requested.get(tokenId);
    for (const request of wanted ?? [UNNAMED]) {
      const dispatch = add(roomAgents, request, true);
      if (wanted) saveInBackground(roomAgents, dispatch);
    }
    return roomAgents;
  }

  function addTenant(tenant: Tenant): void {
    if (tenants.has(tenant)) return;
    tenants.add(tenant);
    const isInTenant = ({ projectId, environment }: LiveRoom) =>
      projectId === tenant.projectId && environment === tenant.environment;
    for (const live of registry.rooms()) if (isInTenant(live) && !isAlone(live.id)) onFirstJoin(live, null);
  }

  async function save({ roomId }: RoomAgents, dispatch: Dispatch): Promise<void> {
    dispatch.isSaved = true;
    await write((unit) => store.save(unit, rowOf(roomId, dispatch)));
  }

  const saveInBackground = (roomAgents: RoomAgents, dispatch: Dispatch) =>
    void save(roomAgents, dispatch).catch(failed);

  const removeRow = (dispatchId: string) => void write((unit) => store.remove(unit, dispatchId)).catch(failed);

  return {
    tenants,
    /** Watches the rooms of this project from now on; those with participants get the unnamed agents. */
    addTenant,

    /** Keeps the dispatches that a token requests during its join; the returned function discards them. */
    expect({ tokenId, ...tenant }: Tenant & { tokenId: string }, wanted: DispatchRequest[]): () => void {
      if (wanted.length === 0) return () => {};
      addTenant(tenant);
      requested.set(tokenId, wanted);
      return () => void requested.delete(tokenId);
    },

    onFirstJoin,
    open,
    add,
    isAlone,
    find: (roomId: string): RoomAgents | undefined => byRoom.get(roomId),
    all: (): Iterable<RoomAgents> => byRoom.values(),
    isCurrent: (roomAgents: RoomAgents) => byRoom.get(roomAgents.roomId) === roomAgents,
    close: (roomAgents: RoomAgents): void => void byRoom.delete(roomAgents.roomId),

    /**
     * The running jobs of this worker. A job whose worker has disconnected is transferred to the worker that claims it.
     */
    jobsOf(
      worker: AgentWorker,
      jobIds: ReadonlySet<string>,
    ): { roomAgents: RoomAgents; dispatch: Dispatch; assigned: AssignedJob }[] {
      return [...byRoom.values()]
        .filter((roomAgents) => sameTenant(roomAgents, worker.key))
        .flatMap((roomAgents) =>
          [...roomAgents.dispatches.values()].flatMap((dispatch) =>
            [...dispatch.jobs.values()].flatMap((assigned) => {
              if (assigned.state !== "running" || !jobIds.has(assigned.job.id)) return [];
              if (assigned.worker === null || assigned.worker.isGone) assigned.worker = worker;
              return assigned.worker === worker ? [{ roomAgents, dispatch, assigned }] : [];
            }),
          ),
        );
    },

    save,
    saveInBackground,

    remove({ id, isSaved }: Dispatch): void {
      if (isSaved) removeRow(id);
    },

    /** Restores the dispatches after a restart; their agents may still run and reconnect. */
    restore(): RoomAgents[] {
      const restored = new Set<RoomAgents>();
      for (const row of store.all()) {
        const room = find(row.roomId);
        if (room?.status !== "ACTIVE") {
          removeRow(row.id);
          continue;
        }
        tenants.add(room);
        const roomAgents = open(room);
        roomAgents.isDecided ||= row.alone;
        roomAgents.dispatches.set(row.id, dispatchOf(row, room));
        restored.add(roomAgents);
      }
      return [...restored];
    },
  };
}

function rowOf(roomId: string, dispatch: Dispatch): DispatchRow {
  const { id, agentName, metadata, attributes, alone, createdAt, jobs } = dispatch;
  const job = jobs.get(ROOM_JOB);
  const assigned = job?.state === "running" || job?.state === "ended" ? job : null;
  return {
    id,
    roomId,
    agentName,
    metadata,
    attributes,
    alone,
    createdAt,
    jobId: assigned?.job.id ?? null,
    agentIdentity: assigned?.job.state?.participantIdentity ?? null,
    jobEnded: assigned?.state === "ended",
  };
}

function dispatchOf(row: DispatchRow, { id: roomId, name }: KnownRoom): Dispatch {
  const { id, agentName, metadata, attributes, alone, createdAt, jobId, agentIdentity, jobEnded } = row;
  const jobs = new Map<string, AssignedJob>();
  if (jobId !== null && agentIdentity !== null) {
    const job = new Job({
      id: jobId,
      dispatchId: id,
      agentName,
      metadata,
      attributes,
      type: JobType.JT_ROOM,
      room: { sid: roomSid(roomId), name },
      state: new JobState({
        status: jobEnded ? JobStatus.JS_SUCCESS : JobStatus.JS_RUNNING,
        participantIdentity: agentIdentity,
      }),
    });
    jobs.set(ROOM_JOB, { job, worker: null, state: jobEnded ? "ended" : "running" });
  }
  return { id, agentName, metadata, attributes, alone, createdAt, jobs, isSaved: true };
}
