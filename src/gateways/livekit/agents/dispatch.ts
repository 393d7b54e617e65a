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
import { nanoseconds } from "../records.ts";
import type { AgentWorker } from "./workers.ts";

/** Metadata and attributes are sent with every job. */
const MAX_METADATA_BYTES = 16 * 1_024;
const MAX_AGENT_NAME = 128;
const MAX_DISPATCHES_PER_TOKEN = 16;

export type DispatchRequest = { agentName: string; metadata: string; attributes: Record<string, string> };

/** A room without explicit dispatches gets the unnamed agents. */
export const UNNAMED: DispatchRequest = { agentName: "", metadata: "", attributes: {} };

/**
 * One job of a dispatch. In `declined` every worker has declined it, and workers that register later are offered the
 * job. A running job without a worker was started before this process, and its worker has not reconnected yet.
 */
export type AssignedJob = { job: Job; worker: AgentWorker | null; state: "asking" | "running" | "declined" | "ended" };

export type Dispatch = DispatchRequest & {
  readonly id: string;
  readonly createdAt: number;
  /** Unnamed agents do not join the room in addition. */
  readonly alone: boolean;
  isSaved: boolean;
  /** Jobs by target: the room, or one of its participants, until it has left and its agent too. */
  readonly jobs: Map<string, AssignedJob>;
};

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
  id: `AD_${randomBase62(12)}`,
  agentName,
  metadata,
  attributes,
  createdAt,
  alone,
  isSaved: false,
  jobs: new Map(),
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

/** The targets of a job type; null is the whole room. Agents are not targets. */
export function targetsOf(sessions: Iterable<RtcSession>, type: JobType): (RtcSession | null)[] {
  if (type === JobType.JT_ROOM) return [null];
  const participants = [...sessions].filter(({ kind, hidden }) => kind !== "agent" && kind !== "egress" && !hidden);
  return type === JobType.JT_PARTICIPANT ? participants : participants.filter(({ tracks }) => tracks.size > 0);
}

export function presentDispatch({ id, agentName, metadata, attributes, createdAt, jobs }: Dispatch, room: string) {
  const assigned = [...jobs.values()].filter(({ state }) => state === "running" || state === "ended");
  return new AgentDispatch({
    id,
    agentName,
    metadata,
    attributes,
    room,
    state: new AgentDispatchState({ createdAt: nanoseconds(createdAt), jobs: assigned.map(({ job }) => job) }),
  });
}

export function changeState(job: Job, status: JobStatus, error: string, at: number, isOver: boolean): void {
  if (!job.state) return;
  Object.assign(job.state, { status, error: error.slice(0, 1_024), updatedAt: nanoseconds(at) });
  if (isOver) job.state.endedAt = nanoseconds(at);
}

/** The dispatches that a token requests (`roomConfig.agents`). Invalid dispatches are ignored. */
export function dispatchesInToken(claims: Record<string, unknown>): DispatchRequest[] {
  const { roomConfig } = claims;
  if (typeof roomConfig !== "object" || roomConfig === null || !("agents" in roomConfig)) return [];
  const agents = Array.isArray(roomConfig.agents) ? roomConfig.agents : [];
  return agents.slice(0, MAX_DISPATCHES_PER_TOKEN).flatMap((agent) => {
    try {
      const { agentName, metadata, attributes } = RoomAgentDispatch.fromJson(agent, { ignoreUnknownFields: true });
      const request = { agentName, metadata, attributes };
      return dispatchProblem(request) === null ? [request] : [];
    } catch {
      return [];
    }
  });
}
