import {
  AvailabilityRequest,
  type AvailabilityResponse,
  type Job,
  JobAssignment,
  JobTermination,
  type JobType,
  type ParticipantPermission,
  type RegisterWorkerRequest,
  ServerMessage,
  WorkerPong,
  WorkerStatus,
} from "@livekit/protocol";
import type { ApiKeyCaller } from "../../../kernel/http/callers.ts";
import type { TopicSocket } from "../../../kernel/socket/sockets.ts";
import type { Timers } from "../../../kernel/time/timers.ts";

/** How long a worker thinks about a job before another is asked. */
const ANSWER_WITHIN_MS = 10_000;

/** What a worker is for: it and all that say the same take turns. */
export type Offer = { agentName: string; type: JobType; permissions: ParticipantPermission | undefined };

type Outgoing = ServerMessage["message"];

/** One process that runs agents: it waits for jobs on a socket, and the agents come into rooms by themselves. */
export class Worker {
  readonly id: string;
  readonly key: ApiKeyCaller;
  /** Null until it has registered. */
  offer: Offer | null = null;
  load = 0;
  readonly #socket: TopicSocket;
  readonly #timers: Timers;
  #isFull = false;
  #isGone = false;
  readonly #asked = new Map<string, (answer: AvailabilityResponse | null) => void>();

  constructor(id: string, key: ApiKeyCaller, socket: TopicSocket, timers: Timers) {
    this.id = id;
    this.key = key;
    this.#socket = socket;
    this.#timers = timers;
  }

  get isGone(): boolean {
    return this.#isGone;
  }

  get isFree(): boolean {
    return this.offer !== null && !this.#isFull && !this.#isGone;
  }

  registered({ agentName, type, allowedPermissions }: RegisterWorkerRequest): void {
    this.offer = { agentName, type, permissions: allowedPermissions };
  }

  /** True when it has become free. */
  reported(status: WorkerStatus | undefined, load: number): boolean {
    const wasFree = this.isFree;
    this.#isFull = status === WorkerStatus.WS_FULL;
    this.load = Math.min(1, Math.max(0, load));
    return !wasFree && this.isFree;
  }

  /** Its answer; null when none comes. */
  ask(job: Job): Promise<AvailabilityResponse | null> {
    return new Promise((resolve) => {
      if (this.#isGone) return resolve(null);
      const answered = (answer: AvailabilityResponse | null) => {
        cancel();
        this.#asked.delete(job.id);
        resolve(answer);
      };
      const cancel = this.#timers.after(ANSWER_WITHIN_MS, () => answered(null));
      this.#asked.set(job.id, answered);
      this.send({ case: "availability", value: new AvailabilityRequest({ job }) });
    });
  }

  answered(answer: AvailabilityResponse): void {
    this.#asked.get(answer.jobId)?.(answer);
  }

  assign(job: Job, token: string): void {
    this.send({ case: "assignment", value: new JobAssignment({ job, token }) });
  }

  terminate(jobId: string): void {
    this.send({ case: "termination", value: new JobTermination({ jobId }) });
  }

  pong(lastTimestamp: bigint, now: number): void {
    this.send({ case: "pong", value: new WorkerPong({ lastTimestamp, timestamp: BigInt(now) }) });
  }

  send(message: Outgoing): void {
    if (!this.#isGone) this.#socket.sendBytes(new ServerMessage({ message }).toBinary());
  }

  close(code: number, reason: string): void {
    this.#socket.close(code, reason);
    this.gone();
  }

  gone(): void {
    this.#isGone = true;
    for (const answered of [...this.#asked.values()]) answered(null);
  }
}
