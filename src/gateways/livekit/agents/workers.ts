import {
  AvailabilityRequest,
  type AvailabilityResponse,
  type Job,
  JobAssignment,
  JobTermination,
  type JobType,
  type ParticipantPermission,
  type RegisterWorkerRequest,
  RegisterWorkerResponse,
  type ServerInfo,
  ServerMessage,
  type UpdateJobStatus,
  WorkerMessage,
  WorkerPong,
  WorkerStatus,
} from "@livekit/protocol";
import { randomBase62 } from "../../../kernel/crypto/ids.ts";
import type { ApiKeyCaller } from "../../../kernel/http/callers.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { createFrameBudget } from "../../../kernel/socket/frame-reader.ts";
import type { SocketEvents, TopicSocket } from "../../../kernel/socket/sockets.ts";
import { sameTenant, type Tenant } from "../../../kernel/tenant.ts";
import type { Timers } from "../../../kernel/time/timers.ts";
import { CLOSE_CODES } from "../../../protocol/close-codes.ts";
import type { SignalingCore } from "../../signaling/signaling.ts";
import { decodeBinary, decodeJson, fieldsCost, frameCost } from "../message-reader.ts";
import type { SigningKeys } from "../tokens.ts";

/** A worker that does not respond in time is skipped. */
const RESPONSE_TIMEOUT_MS = 10_000;

/** Workers with the same registration share its jobs. */
type WorkerRegistration = { agentName: string; type: JobType; permissions: ParticipantPermission | undefined };

type Outgoing = ServerMessage["message"];

/** A process that runs agents. It gets jobs on its socket, and its agents join rooms as participants. */
export class AgentWorker {
  readonly id: string;
  readonly key: ApiKeyCaller;
  registration: WorkerRegistration | null = null;
  load = 0;
  #isFull = false;
  #isGone = false;
  readonly #pending = new Map<string, (response: AvailabilityResponse | null) => void>();

  constructor(
    id: string,
    key: ApiKeyCaller,
    private readonly socket: TopicSocket,
    private readonly timers: Timers,
  ) {
    this.id = id;
    this.key = key;
  }

  get isGone(): boolean {
    return this.#isGone;
  }

  get isFree(): boolean {
    return this.registration !== null && !this.#isFull && !this.#isGone;
  }

  registered({ agentName, type, allowedPermissions }: RegisterWorkerRequest): void {
    this.registration = { agentName, type, permissions: allowedPermissions };
  }

  reported(status: WorkerStatus | undefined, load: number): boolean {
    const wasFree = this.isFree;
    this.#isFull = status === WorkerStatus.WS_FULL;
    this.load = Math.min(1, Math.max(0, load));
    return !wasFree && this.isFree;
  }

  requestAvailability(job: Job): Promise<AvailabilityResponse | null> {
    return new Promise((resolve) => {
      if (this.#isGone) return resolve(null);
      const respond = (response: AvailabilityResponse | null) => {
        cancel();
        this.#pending.delete(job.id);
        resolve(response);
      };
      const cancel = this.timers.after(RESPONSE_TIMEOUT_MS, () => respond(null));
      this.#pending.set(job.id, respond);
      this.send({ case: "availability", value: new AvailabilityRequest({ job }) });
    });
  }

  respond(response: AvailabilityResponse): void {
    this.#pending.get(response.jobId)?.(response);
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
    if (!this.#isGone) this.socket.sendBytes(new ServerMessage({ message }).toBinary());
  }

  close(code: number, reason: string): void {
    this.socket.close(code, reason);
    this.gone();
  }

  gone(): void {
    this.#isGone = true;
    for (const respond of [...this.#pending.values()]) respond(null);
  }
}

const MAX_FRAME_BYTES = 64 * 1_024;
const REGISTER_TIMEOUT_MS = 10_000;
const MAX_WORKERS_PER_PROJECT = 1_000;
const MAX_AGENT_NAME = 128;
/** A worker reports its load every few seconds and the state of each job several times. */
const FRAMES_PER_OURS = 20;

type WorkersDeps = {
  watch: SignalingCore["watch"];
  signer: SigningKeys["signer"];
  serverInfo: ServerInfo;
};

type WorkerEvents = {
  /** The worker can accept jobs; `isNew` when it has just registered. */
  free(worker: AgentWorker, isNew: boolean): void;
  jobChanged(worker: AgentWorker, update: UpdateJobStatus): void;
  /** The worker has reconnected and still runs these jobs. */
  jobsClaimed(worker: AgentWorker, jobIds: ReadonlySet<string>): void;
};

export type AcceptedJob = { worker: AgentWorker; registration: WorkerRegistration; response: AvailabilityResponse };
/** `declined` when every free worker declined, `none` when no worker is free. */
type JobNotAccepted = "declined" | "none";

export function createWorkers(runtime: Runtime, deps: WorkersDeps, events: WorkerEvents) {
  const { bus, config, now, timers } = runtime;
  const workers = new Set<AgentWorker>();
  bus.on("apiKeyRevoked", ({ publicId }) => {
    for (const worker of [...workers]) {
      if (worker.key.publicId === publicId) worker.close(CLOSE_CODES.unauthorized, "the API key was revoked");
    }
  });

  const fitting = (tenant: Tenant, type: JobType, agentName: string): AgentWorker[] =>
    [...workers].filter(
      (worker) =>
        sameTenant(tenant, worker.key) &&
        worker.registration?.type === type &&
        worker.registration.agentName === agentName,
    );

  function choose(free: readonly AgentWorker[]): AgentWorker | undefined {
    const capacity = (worker: AgentWorker) => Math.max(0.01, 1 - worker.load);
    let left = Math.random() * free.reduce((sum, worker) => sum + capacity(worker), 0);
    return free.find((worker) => {
      left -= capacity(worker);
      return left <= 0;
    });
  }

  function register(worker: AgentWorker, request: RegisterWorkerRequest): void {
    if (worker.registration) return;
    if (request.agentName.length > MAX_AGENT_NAME) {
      worker.close(CLOSE_CODES.malformed, `agent_name: at most ${MAX_AGENT_NAME} characters`);
      return;
    }
    worker.registered(request);
    const { serverInfo } = deps;
    worker.send({ case: "register", value: new RegisterWorkerResponse({ workerId: worker.id, serverInfo }) });
    events.free(worker, true);
  }

  function received(worker: AgentWorker, message: WorkerMessage["message"]): void {
    switch (message.case) {
      case "register":
        register(worker, message.value);
        break;
      case "availability":
        worker.respond(message.value);
        break;
      case "updateWorker":
        if (worker.reported(message.value.status, message.value.load)) events.free(worker, false);
        break;
      case "updateJob":
        events.jobChanged(worker, message.value);
        break;
      case "ping":
        worker.pong(message.value.timestamp, now());
        break;
      case "migrateJob":
        events.jobsClaimed(worker, new Set(message.value.jobIds));
        break;
      case "simulateJob":
      case undefined:
        break;
    }
  }

  return {
    servesTenant: (tenant: Tenant): boolean => [...workers].some((worker) => sameTenant(tenant, worker.key)),
    hasWorker: (tenant: Tenant, type: JobType, agentName: string) => fitting(tenant, type, agentName).length > 0,

    /** Offers the job to free workers one after another, once each. */
    async findWorker(tenant: Tenant, job: Job): Promise<AcceptedJob | JobNotAccepted> {
      const asked = new Set<AgentWorker>();
      for (;;) {
        const free = fitting(tenant, job.type, job.agentName).filter((one) => one.isFree && !asked.has(one));
        const worker = choose(free);
        if (!worker?.registration) return asked.size > 0 ? "declined" : "none";
        asked.add(worker);
        // A worker whose API key is revoked gets no job.
        if (!deps.signer(worker.key.publicId)) continue;
        const response = await worker.requestAvailability(job);
        if (response?.available) return { worker, registration: worker.registration, response };
        if (response?.terminate) return "declined";
      }
    },

    connect(socket: TopicSocket, key: ApiKeyCaller): SocketEvents {
      const worker = new AgentWorker(`AW_${randomBase62(12)}`, key, socket, timers);
      const frames = config.SIGNALING_MAX_MESSAGES_PER_WINDOW * FRAMES_PER_OURS;
      const spend = createFrameBudget(now, frames, config.RATE_LIMIT_WINDOW_SECONDS);
      if ([...workers].filter((other) => sameTenant(key, other.key)).length >= MAX_WORKERS_PER_PROJECT) {
        worker.close(CLOSE_CODES.tooManyAttempts, `at most ${MAX_WORKERS_PER_PROJECT} workers`);
      } else workers.add(worker);
      const cancel = timers.after(REGISTER_TIMEOUT_MS, () => {
        if (!worker.registration) worker.close(CLOSE_CODES.joinTimeout, "it did not register");
      });
      return deps.watch(socket, {
        received(text, bytes, binary) {
          if (!workers.has(worker)) return;
          if (bytes > MAX_FRAME_BYTES) return worker.close(CLOSE_CODES.frameTooLarge, "frame too large");
          if (spend(frameCost(bytes)).kind !== "ok")
            return worker.close(CLOSE_CODES.tooManyAttempts, "too many frames");
          const decoded =
            text === null ? decodeBinary(WorkerMessage, binary ?? Buffer.alloc(0)) : decodeJson(WorkerMessage, text);
          if (!decoded) return worker.close(CLOSE_CODES.malformed, "malformed");
          spend(fieldsCost(decoded.fields));
          received(worker, decoded.message.message);
        },
        closed() {
          cancel();
          workers.delete(worker);
          worker.gone();
        },
      });
    },
  };
}
