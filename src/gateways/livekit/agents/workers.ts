import {
  type AvailabilityResponse,
  type Job,
  type JobType,
  type RegisterWorkerRequest,
  RegisterWorkerResponse,
  type ServerInfo,
  type UpdateJobStatus,
  WorkerMessage,
} from "@livekit/protocol";
import type { ApiKeyCaller } from "../../../kernel/http/callers.ts";
import { randomBase62 } from "../../../kernel/crypto/ids.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { createFrameBudget } from "../../../kernel/socket/frame-reader.ts";
import type { SocketEvents, TopicSocket } from "../../../kernel/socket/sockets.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import { CLOSE_CODES } from "../../../protocol/close-codes.ts";
import type { Translation } from "../../signaling/signaling.ts";
import type { Signers } from "../tokens/claims.ts";
import { type Offer, Worker } from "./worker.ts";

const MAX_FRAME_BYTES = 64 * 1_024;
const REGISTER_WITHIN_MS = 10_000;
const MAX_WORKERS_PER_PROJECT = 1_000;
const MAX_AGENT_NAME = 128;
/** A worker tells its load every few seconds, and each job several times. */
const FRAMES_PER_OURS = 20;

type WorkersDeps = {
  watch: Translation["watch"];
  signer: Signers["signer"];
  serverInfo: ServerInfo;
};

type WorkerEvents = {
  /** It may be asked from now on. `isNew`: for the first time. */
  free(worker: Worker, isNew: boolean): void;
  jobChanged(worker: Worker, update: UpdateJobStatus): void;
  /** It has come back, and these jobs of before run on. */
  stillHas(worker: Worker, jobIds: ReadonlySet<string>): void;
};

export type Hired = { worker: Worker; offer: Offer; answer: AvailabilityResponse };
/** `declined`: all were asked, and none wants it. `none`: there is nobody to ask now. */
export type NotHired = "declined" | "none";

export type Workers = ReturnType<typeof createWorkers>;

/** The workers of all projects, and who of them takes a job. */
export function createWorkers(runtime: Runtime, deps: WorkersDeps, events: WorkerEvents) {
  const { bus, config, now, timers } = runtime;
  const workers = new Set<Worker>();
  bus.on("apiKeyRevoked", ({ publicId }) => {
    for (const worker of [...workers]) {
      if (worker.key.publicId === publicId) worker.close(CLOSE_CODES.unauthorized, "the API key was revoked");
    }
  });

  const isOf = ({ projectId, environment }: Tenant, { key }: Worker) =>
    key.projectId === projectId && key.environment === environment;

  const fitting = (tenant: Tenant, type: JobType, agentName: string): Worker[] =>
    [...workers].filter(
      (worker) => isOf(tenant, worker) && worker.offer?.type === type && worker.offer.agentName === agentName,
    );

  /** By chance, whoever has less to do more often. */
  function choose(free: readonly Worker[]): Worker | undefined {
    const room = (worker: Worker) => Math.max(0.01, 1 - worker.load);
    let left = Math.random() * free.reduce((sum, worker) => sum + room(worker), 0);
    return free.find((worker) => {
      left -= room(worker);
      return left <= 0;
    });
  }

  function register(worker: Worker, request: RegisterWorkerRequest): void {
    if (worker.offer) return;
    if (request.agentName.length > MAX_AGENT_NAME) {
      worker.close(CLOSE_CODES.malformed, `agent_name: at most ${MAX_AGENT_NAME} characters`);
      return;
    }
    worker.registered(request);
    const { serverInfo } = deps;
    worker.send({ case: "register", value: new RegisterWorkerResponse({ workerId: worker.id, serverInfo }) });
    events.free(worker, true);
  }

  function received(worker: Worker, message: WorkerMessage["message"]): void {
    switch (message.case) {
      case "register":
        register(worker, message.value);
        break;
      case "availability":
        worker.answered(message.value);
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
        events.stillHas(worker, new Set(message.value.jobIds));
        break;
      // Nobody simulates a job here.
      case "simulateJob":
      case undefined:
        break;
    }
  }

  return {
    /** Whether anybody works for the project at all. */
    serve: (tenant: Tenant): boolean => [...workers].some((worker) => isOf(tenant, worker)),
    isAny: (tenant: Tenant, type: JobType, agentName: string) => fitting(tenant, type, agentName).length > 0,

    /** Asks one after another, each once. */
    async hire(tenant: Tenant, job: Job): Promise<Hired | NotHired> {
      const asked = new Set<Worker>();
      for (;;) {
        const free = fitting(tenant, job.type, job.agentName).filter((one) => one.isFree && !asked.has(one));
        const worker = choose(free);
        if (!worker?.offer) return asked.size > 0 ? "declined" : "none";
        asked.add(worker);
        // Whose key or project is gone gets nothing any more.
        if (!deps.signer(worker.key.publicId)) continue;
        const answer = await worker.ask(job);
        if (answer?.available) return { worker, offer: worker.offer, answer };
        if (answer?.terminate) return "declined";
      }
    },

    connect(socket: TopicSocket, key: ApiKeyCaller): SocketEvents {
      const worker = new Worker(`AW_${randomBase62(12)}`, key, socket, timers);
      const frames = config.SIGNALING_MAX_MESSAGES_PER_WINDOW * FRAMES_PER_OURS;
      const spend = createFrameBudget(now, frames, config.RATE_LIMIT_WINDOW_SECONDS);
      if ([...workers].filter((other) => isOf(key, other)).length >= MAX_WORKERS_PER_PROJECT) {
        worker.close(CLOSE_CODES.tooManyAttempts, `at most ${MAX_WORKERS_PER_PROJECT} workers`);
      } else workers.add(worker);
      const cancel = timers.after(REGISTER_WITHIN_MS, () => {
        if (!worker.offer) worker.close(CLOSE_CODES.joinTimeout, "it did not register");
      });
      return deps.watch(socket, {
        received(text, bytes, binary) {
          if (!workers.has(worker)) return;
          if (bytes > MAX_FRAME_BYTES) return worker.close(CLOSE_CODES.frameTooLarge, "frame too large");
          if (spend().kind !== "ok") return worker.close(CLOSE_CODES.tooManyAttempts, "too many frames");
          const message = read(text, binary);
          if (message) received(worker, message);
          else worker.close(CLOSE_CODES.malformed, "malformed");
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

function read(text: string | null, binary: Buffer | undefined): WorkerMessage["message"] | null {
  try {
    const message =
      text === null ? WorkerMessage.fromBinary(binary ?? Buffer.alloc(0)) : WorkerMessage.fromJsonString(text);
    return message.message;
  } catch {
    return null;
  }
}
