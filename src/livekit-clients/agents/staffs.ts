import { Job, JobState, JobStatus, JobType } from "@livekit/protocol";
import { roomSid } from "../../protocol/media/livekit-sids.ts";
import type { Runtime } from "../../runtime.ts";
import type { LiveRoom } from "../../signaling/session/rtc-session.ts";
import { dispatchStore } from "./dispatch.store.ts";
import type { DispatchRow } from "./dispatch.table.ts";
import type { Dispatch, Task } from "./dispatch.ts";
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

export type Staffs = ReturnType<typeof createStaffs>;

/** The rooms that are to have agents, and what of that outlives the process. */
export function createStaffs({ db, write, log }: Runtime, find: (roomId: string) => KnownRoom | undefined) {
  const store = dispatchStore(db);
  const staffs = new Map<string, Staff>();
  const failed = (err: unknown) => log.error({ err }, "what agents a room is to have could not be written down");

  function open({ id: roomId, projectId, environment }: StaffedRoom): Staff {
    const known = staffs.get(roomId);
    if (known) return known;
    const staff = { roomId, projectId, environment, dispatches: new Map(), isDecided: false, cancelDismissal: null };
    staffs.set(roomId, staff);
    return staff;
  }

  /** On record as it is now. */
  async function keep({ roomId }: Staff, dispatch: Dispatch): Promise<void> {
    dispatch.isKept = true;
    await write((unit) => store.save(unit, rowOf(roomId, dispatch)));
  }

  const forget = (dispatchId: string) => void write((unit) => store.remove(unit, dispatchId)).catch(failed);

  return {
    open,
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

    /** The same, where nobody waits for it. */
    note: (staff: Staff, dispatch: Dispatch) => void keep(staff, dispatch).catch(failed),

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
