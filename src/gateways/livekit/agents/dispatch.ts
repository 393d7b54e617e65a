import {
  AgentDispatch,
  AgentDispatchState,
  Job,
  JobState,
  JobStatus,
  JobType,
  type ParticipantInfo,
  type Room,
  RoomAgentDispatch,
} from "@livekit/protocol";
import { randomBase62 } from "../../../kernel/crypto/ids.ts";
import type { RtcSession } from "../../signaling/rtc-session.ts";
import type { AgentWorker } from "./worker.ts";

/** What a job says is for the agent to read; the whole is sent with each. */
const MAX_METADATA_BYTES = 16 * 1_024;
const MAX_AGENT_NAME = 128;
const MAX_DISPATCHES_PER_TOKEN = 16;

/** Which agent a room is to have, and what it is told. */
export type DispatchRequest = { agentName: string; metadata: string; attributes: Record<string, string> };

/** Whatever agent has no name: what a room gets of which nobody has said anything. */
export const UNNAMED: DispatchRequest = { agentName: "", metadata: "", attributes: {} };

/**
 * One agent at work, or asked for. `declined`: nobody wanted it; whoever registers later is asked anew. A running one without
 * a worker was there before this process, and its worker has not said yet that it still has it.
 */
export type JobSlot = { job: Job; worker: AgentWorker | null; state: "asking" | "running" | "declined" | "ended" };

export type Dispatch = DispatchRequest & {
  readonly id: string;
  readonly createdAt: number;
  /** Agents without a name do not come beside it by themselves. */
  readonly alone: boolean;
  /** It is on record. */
  isKept: boolean;
  /** By what they are for: the room, or one participant of it. */
  readonly tasks: Map<string, JobSlot>;
};

/** A sentence says what is wrong with it. */
export function dispatchProblem({ agentName, metadata, attributes }: DispatchRequest): string | null {
  if (agentName.length > MAX_AGENT_NAME) return `agent_name: at most ${MAX_AGENT_NAME} characters`;
  const bytes = Buffer.byteLength(metadata) + Buffer.byteLength(JSON.stringify(attributes));
  return bytes > MAX_METADATA_BYTES ? `metadata and attributes: at most ${MAX_METADATA_BYTES} bytes` : null;
}

export const newDispatch = (
  { agentName, metadata, attributes }: DispatchRequest,
  createdAt: number,
  alone: boolean,
): Dispatch => ({
  ...{ id: `AD_${randomBase62(12)}`, agentName, metadata, attributes, createdAt, alone },
  isKept: false,
  tasks: new Map(),
});

export function newJob(
  { id: dispatchId, agentName, metadata, attributes }: Dispatch,
  type: JobType,
  room: Room,
  participant: ParticipantInfo | undefined,
): Job {
  const state = new JobState({ status: JobStatus.JS_PENDING });
  const about = { dispatchId, agentName, metadata, attributes, type };
  return new Job({ id: `AJ_${randomBase62(12)}`, ...about, room, participant, state });
}

/** Whom a kind of job is for: null is the room as a whole. Agents work for nobody's agent. */
export function targetsOf(sessions: Iterable<RtcSession>, type: JobType): (RtcSession | null)[] {
  if (type === JobType.JT_ROOM) return [null];
  const people = [...sessions].filter(({ kind, hidden }) => kind !== "agent" && !hidden);
  return type === JobType.JT_PARTICIPANT ? people : people.filter(({ tracks }) => tracks.size > 0);
}

const nanoseconds = (ms: number) => BigInt(ms) * 1_000_000n;

export function presentDispatch({ id, agentName, metadata, attributes, createdAt, tasks }: Dispatch, room: string) {
  const jobs = [...tasks.values()].filter(({ state }) => state === "running" || state === "ended");
  return new AgentDispatch({
    ...{ id, agentName, metadata, attributes, room },
    state: new AgentDispatchState({ createdAt: nanoseconds(createdAt), jobs: jobs.map(({ job }) => job) }),
  });
}

export function changeState(job: Job, status: JobStatus, error: string, at: number, isOver: boolean): void {
  if (!job.state) return;
  Object.assign(job.state, { status, error: error.slice(0, 1_024), updatedAt: nanoseconds(at) });
  if (isOver) job.state.endedAt = nanoseconds(at);
}

/** The agents that a token asks for in the room it makes live (`roomConfig.agents`). What cannot be read is left out. */
export function dispatchesInToken(claims: Record<string, unknown>): DispatchRequest[] {
  const { roomConfig } = claims;
  if (typeof roomConfig !== "object" || roomConfig === null || !("agents" in roomConfig)) return [];
  const agents = Array.isArray(roomConfig.agents) ? roomConfig.agents : [];
  return agents.slice(0, MAX_DISPATCHES_PER_TOKEN).flatMap((agent) => {
    try {
      const { agentName, metadata, attributes } = RoomAgentDispatch.fromJson(agent, { ignoreUnknownFields: true });
      const wanted = { agentName, metadata, attributes };
      return dispatchProblem(wanted) === null ? [wanted] : [];
    } catch {
      return [];
    }
  });
}
