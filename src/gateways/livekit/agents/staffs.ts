import { Job, JobState, JobStatus, JobType } from "@livekit/protocol";
import type { Runtime } from "../../../kernel/runtime.ts";
import { type Tenant, tenantSet } from "../../../kernel/tenant.ts";
import { roomSid } from "../../../protocol/media/livekit-sids.ts";
import type { Registry } from "../../signaling/session/registry.ts";
import type { LiveRoom } from "../../signaling/session/rtc-session.ts";
import { dispatchStore } from "./dispatch.store.ts";
import type { DispatchRow } from "./dispatch.table.ts";
import { type Dispatch, newDispatch, type Task, UNNAMED, type Wanted } from "./dispatch.ts";
import type { Worker } from "./worker.ts";

/** Under which a dispatch has the agent that works for the whole room. */
const ROOM_TASK = `${JobType.JT_ROOM} `;

/** What a task is called among those of its dispatch: by what kind it is, and for whom. */
export const taskKey = (type: JobType, sessionId: string | undefined) => `${type} ${sessionId ?? ""}`;

/** What agents a room is to have, from the first who comes until the last has gone. */
export type Staff = {
  readonly projectId: string;
  readonly environment: LiveRoom["environment"];
  readonly roomId: string;
  readonly dispatches: Map<string, Dispatch>;
  /** It was said which agents come by themselves: by whoever made the room, or by the first who entered. */
  isDecided: boolean;
  cancelDismissal: (() => void) | null;
};

type StaffedRoom = Pick<LiveRoom, "id" | "projectId" | "environment">;
type KnownRoom = StaffedRoom & { name: string; status: "ACTIVE" | "CLOSED" };

type StaffsDeps = { find: (roomId: string) => KnownRoom | undefined; registry: Registry };

export type Staffs = ReturnType<typeof createStaffs>;

/** The rooms that are to have agents, and what of that outlives the process. */
export function createStaffs({ db, write, log, now }: Runtime, { find, registry }: StaffsDeps) {
  const store = dispatchStore(db);
  const staffs = new Map<string, Staff>();
  /** By token: what joins under way ask for. */
  const asked = new Map<string, Wanted[]>();
  /** Projects that have agents, or have asked for one: of the rooms of all others nobody is told. */
  const attended = tenantSet();
  const failed = (err: unknown) => log.error({ err }, "what agents a room is to have could not be written down");

  function open({ id: roomId, projectId, environment }: StaffedRoom): Staff {
    const known = staffs.get(roomId);
    if (known) return known;
    const staff = { roomId, projectId, environment, dispatches: new Map(), isDecided: false, cancelDismissal: null };
    staffs.set(roomId, staff);
    return staff;
  }

  function add(staff: Staff, wanted: Wanted, alone: boolean): Dispatch {
    const dispatch = newDispatch(wanted, now(), alone);
    staff.dispatches.set(dispatch.id, dispatch);
    return dispatch;
  }

  const isAlone = (roomId: string): boolean =>
    ![...(registry.room(roomId)?.sessions.values() ?? [])].some(({ kind }) => kind !== "agent");

  /** What comes without a name is on record once it is there: most rooms have no agents at all. */
  function enter(live: LiveRoom, tokenId: string | null): Staff {
    const staff = open(live);
    if (staff.isDecided) return staff;
    staff.isDecided = true;
    const wanted = tokenId === null ? undefined : asked.get(tokenId);
    for (const one of wanted ?? [UNNAMED]) {
      const dispatch = add(staff, one, true);
      if (wanted) note(staff, dispatch);
    }
    return staff;
  }

  function attend(tenant: Tenant): void {
    if (attended.has(tenant)) return;
    attended.add(tenant);
    const isTheirs = ({ projectId, environment }: LiveRoom) =>
      projectId === tenant.projectId && environment === tenant.environment;
    for (const live of registry.rooms()) if (isTheirs(live) && !isAlone(live.id)) enter(live, null);
  }

  /** On record as it is now. */
  async function keep({ roomId }: Staff, dispatch: Dispatch): Promise<void> {
    dispatch.isKept = true;
    await write((unit) => store.save(unit, rowOf(roomId, dispatch)));
  }

  /** The same, where nobody waits for it. */
  const note = (staff: Staff, dispatch: Dispatch) => void keep(staff, dispatch).catch(failed);

  const forget = (dispatchId: string) => void write((unit) => store.remove(unit, dispatchId)).catch(failed);

  return {
    attended,
    /** From now on it matters who comes into the rooms of this project. Whoever is in one has asked for nobody. */
    attend,

    /** What this token asks for, in case that its holder makes the room live. The answer forgets it. */
    expect({ tokenId, ...tenant }: Tenant & { tokenId: string }, wanted: Wanted[]): () => void {
      if (wanted.length === 0) return () => {};
      attend(tenant);
      asked.set(tokenId, wanted);
      return () => void asked.delete(tokenId);
    },

    /** Somebody has come in: the first decides which agents come by themselves. */
    enter,
    open,
    add,
    /** Whether nobody is in the room but agents. */
    isAlone,
    of: (roomId: string): Staff | undefined => staffs.get(roomId),
    all: (): Iterable<Staff> => staffs.values(),
    isCurrent: (staff: Staff) => staffs.get(staff.roomId) === staff,
    close: (staff: Staff): void => void staffs.delete(staff.roomId),

    /** Jobs that run at this worker. One whose worker has gone, perhaps with the server, is that of whoever says it has it. */
    tasksOf(worker: Worker, jobIds: ReadonlySet<string>): { staff: Staff; dispatch: Dispatch; task: Task }[] {
      const { projectId, environment } = worker.key;
      return [...staffs.values()]
        .filter((staff) => staff.projectId === projectId && staff.environment === environment)
        .flatMap((staff) =>
          [...staff.dispatches.values()].flatMap((dispatch) =>
            [...dispatch.tasks.values()].flatMap((task) => {
              if (task.state !== "running" || !jobIds.has(task.job.id)) return [];
              if (task.worker === null || task.worker.isGone) task.worker = worker;
              return task.worker === worker ? [{ staff, dispatch, task }] : [];
            }),
          ),
        );
    },

    keep,

    note,

    forget({ id, isKept }: Dispatch): void {
      if (isKept) forget(id);
    },

    /** Those of before this process: their agents may still be at work, and come back as everybody does. */
    restore(): Staff[] {
      const restored = new Set<Staff>();
      for (const row of store.all()) {
        const room = find(row.roomId);
        if (room?.status !== "ACTIVE") {
          forget(row.id);
          continue;
        }
        attended.add(room);
        const staff = open(room);
        staff.isDecided ||= row.alone;
        staff.dispatches.set(row.id, dispatchOf(row, room));
        restored.add(staff);
      }
      return [...restored];
    },
  };
}

function rowOf(roomId: string, dispatch: Dispatch): DispatchRow {
  const { id, agentName, metadata, attributes, alone, createdAt, tasks } = dispatch;
  const task = tasks.get(ROOM_TASK);
  const hired = task?.state === "running" || task?.state === "ended" ? task : null;
  return {
    ...{ id, roomId, agentName, metadata, attributes, alone, createdAt },
    jobId: hired?.job.id ?? null,
    agentIdentity: hired?.job.state?.participantIdentity ?? null,
    jobEnded: hired?.state === "ended",
  };
}

function dispatchOf(row: DispatchRow, { id: roomId, name }: KnownRoom): Dispatch {
  const { id, agentName, metadata, attributes, alone, createdAt, jobId, agentIdentity, jobEnded } = row;
  const tasks = new Map<string, Task>();
  if (jobId !== null && agentIdentity !== null) {
    const job = new Job({
      ...{ id: jobId, dispatchId: id, agentName, metadata, attributes, type: JobType.JT_ROOM },
      room: { sid: roomSid(roomId), name },
      state: new JobState({
        status: jobEnded ? JobStatus.JS_SUCCESS : JobStatus.JS_RUNNING,
        participantIdentity: agentIdentity,
      }),
    });
    tasks.set(ROOM_TASK, { job, worker: null, state: jobEnded ? "ended" : "running" });
  }
  return { id, agentName, metadata, attributes, alone, createdAt, tasks, isKept: true };
}
