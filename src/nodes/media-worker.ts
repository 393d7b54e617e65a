/** One worker thread of the embedded media node: its requests, its events, and its restart after a crash. */
import { startWorker, startWorkerWhenPossible } from "../kernel/net/descriptors.ts";
import { type IdleThresholds, onIdle } from "../kernel/scheduling/idle.ts";
import { systemTimers, type Timers } from "../kernel/time/timers.ts";
import type { RelayCalls } from "../protocol/media/relay.ts";
import { MediaError, type MediaEvent, type RelayEvent } from "../protocol/media-node.ts";
import {
  type FromWorker,
  ONLY_LOOKS,
  type ToWorker,
  type WorkerCall,
  type WorkerMethod,
  type WorkerRequest,
  type WorkerResponse,
  type WorkerSettings,
} from "../sfu/worker-protocol.ts";

/** A worker that keeps crashing is restarted with growing delays. */
const RESTART_DELAYS_MS = [0, 250, 1_000, 4_000];
/** After this time without a crash, the next crash counts as the first one. */
const STABLE_AFTER_MS = 30_000;
const CLOSE_TIMEOUT_MS = 2_000;
const BUSY_PERCENT = 60;
/** How often a worker is checked; a worker that does not respond is replaced. */
const PING_INTERVAL_MS = 2_000;
/**
 * The number of checks without a sign of life. They are counted instead of timed, because the whole process may wait
 * for CPU time.
 */
const HUNG_AFTER_CHECKS = 5;
/**
 * More checks are allowed before the first sign of life, during which the worker runs its JIT warm-up in parallel with
 * other workers.
 */
const HUNG_AT_START_AFTER_CHECKS = 30;
/** How long to wait until a terminated worker has ended, which releases its port. */
const LONGEST_END_MS = 10_000;
/** A burst of state-changing requests, such as a hundred joins, followed by fewer than ten a second. */
const IDLE_AFTER_BURST: IdleThresholds = { minEvents: 300, checkEveryMs: 15_000, maxEvents: 150 };
/** Disconnected participants are kept for half a minute, so their memory is collected later. */
const SECOND_COLLECTION_AFTER_MS = 60_000;

type MediaWorkerEvents = {
  onEvent(event: MediaEvent): void;
  onRelay(event: RelayEvent): void;
  onCrash(): void;
  log: { info(details: object, message: string): void; error(details: object, message: string): void };
};

type Pending = { resolve(response: unknown): void; reject(error: Error): void };

export class MediaWorker {
  readonly index: number;
  /** Null until `start`. */
  #settings: WorkerSettings | null = null;
  readonly #events: MediaWorkerEvents;
  readonly #pending = new Map<number, Pending>();
  #address = "";
  #worker: Worker;
  /** The worker that failed, until its successor starts: a crash has more than one symptom, and only the first one counts. */
  #givenUp: Worker | null = null;
  /** Resolves when the last worker's thread and sockets are closed. */
  #ended: Promise<void> = Promise.resolve();
  #vitals: Int32Array = new Int32Array(3);
  #ready: PromiseWithResolvers<void>;
  #listens = false;
  /** Whether a newer process has been allowed to use the port. */
  #offersPort = false;
  #sharers = 0;
  /** The worker has listened before, so a port in use is a temporary condition. */
  #hasListened = false;
  readonly #idle: ReturnType<typeof onIdle>;
  #cancelSecondCollection = () => {};
  #cancelRestart = () => {};
  readonly #timers: Timers;
  #nextId = 1;
  #startedAtMs = 0;
  #crashes = 0;
  #closing: PromiseWithResolvers<void> | null = null;

  /** The thread starts to load its code, which takes longer than all other steps before `start`. */
  constructor(index: number, events: MediaWorkerEvents, timers: Timers = systemTimers) {
    this.index = index;
    this.#events = events;
    this.#timers = timers;
    const collect = () => this.#worker.postMessage({ type: "collectGarbage" } satisfies ToWorker);
    const collectTwice = () => {
      collect();
      this.#cancelSecondCollection();
      this.#cancelSecondCollection = timers.after(SECOND_COLLECTION_AFTER_MS, collect);
    };
    const onError = (error: unknown) =>
      events.log.error({ worker: index, error }, "media worker: garbage collection request failed");
    this.#idle = onIdle(IDLE_AFTER_BURST, timers, collectTwice, onError);
    this.#ready = Promise.withResolvers();
    this.#worker = this.#spawn();
  }

  /** Resolves when the sockets are bound, and rejects when one cannot be bound. */
  start(settings: WorkerSettings): Promise<void> {
    this.#settings = { ...settings };
    // If the worker crashed while loading, its replacement starts with these settings.
    if (this.#worker !== this.#givenUp) this.#startWorker(this.#worker);
    return this.#ready.promise;
  }

  /** The bound address of its sockets; empty until the worker listens. */
  get address(): string {
    return this.#address;
  }

  /** 0 until the worker listens. */
  get port(): number {
    return this.#settings?.port ?? 0;
  }

  /** The thread has too little time left for more participants. */
  get isBusy(): boolean {
    return Atomics.load(this.#vitals, 2) >= BUSY_PERCENT;
  }

  /** Whether another process uses the port now. */
  get sharesPort(): boolean {
    return this.#sharers > 0;
  }

  async sharePort(): Promise<WorkerResponse<"sharePort">> {
    const shared = await this.call("sharePort", undefined);
    this.#offersPort = !("unavailable" in shared);
    return shared;
  }

  async keepPort(): Promise<void> {
    this.#offersPort = false;
    await this.call("keepPort", undefined);
  }

  #spawn(): Worker {
    const worker = startWorker("sfu/worker.ts");
    this.#startedAtMs = performance.now();
    worker.onmessage = ({ data }: MessageEvent<FromWorker>) => {
      if (worker !== this.#givenUp) this.#received(data);
    };
    worker.onerror = (event) => {
      this.#events.log.error({ worker: this.index, error: event.message }, "media worker: crashed");
      this.#lost(worker);
    };
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    this.#ended = ended;
    worker.addEventListener("close", () => {
      end();
      this.#lost(worker);
    });
    this.#startWorker(worker);
    return worker;
  }

  #startWorker(worker: Worker): void {
    const settings = this.#settings;
    if (!settings) return;
    const vitals = new Int32Array(new SharedArrayBuffer(12));
    this.#vitals = vitals;
    worker.postMessage({ type: "start", settings, vitals } satisfies ToWorker);
  }

  #received(message: FromWorker): void {
    switch (message.type) {
      case "started":
        // A restarted worker must use the port that clients know.
        if (this.#settings) this.#settings.port = message.port;
        this.#address = message.address;
        this.#listens = this.#hasListened = true;
        this.#watch();
        this.#events.log.info(
          {
            worker: this.index,
            port: message.port,
            fanOut: message.fanOut,
            icmpErrorsSilenced: message.icmpErrorsSilenced,
            buffersRaised: message.buffersRaised,
          },
          "media worker: listening",
        );
        this.#ready.resolve();
        break;
      case "refused":
        if (!this.#hasListened) {
          this.#ready.reject(new Error(`The media worker cannot start: ${message.message}`));
          break;
        }
        this.#events.log.error({ worker: this.index, error: message.message }, "media worker: restart failed");
        this.#lost(this.#worker);
        break;
      case "event":
        this.#events.onEvent(message.event);
        break;
      case "relay":
        this.#events.onRelay(message.event);
        break;
      case "portShared":
        this.#sharers = message.others;
        break;
      case "fault":
        this.#events.log.error({ worker: this.index, error: message.message }, "media worker: uncaught error");
        break;
      case "answer":
        this.#take(message.id)?.resolve(message.response);
        break;
      case "error":
        this.#take(message.id)?.reject(
          message.code ? new MediaError(message.code, message.message) : new Error(message.message),
        );
        break;
      case "closed":
        this.#closing?.resolve();
        break;
    }
  }

  /**
   * Replaces a worker that neither responds nor counts heartbeats, and one that exceeds its memory limit before the
   * system kills the process. A worker with heartbeats is only busy: it drops packets and keeps its rooms.
   */
  #watch(): void {
    const worker = this.#worker;
    const vitals = this.#vitals;
    const maxMemoryMb = this.#settings?.maxMemoryMb ?? Number.POSITIVE_INFINITY;
    let beats = 0;
    let lives = false;
    let silentChecks = 0;
    const isAlive = () => {
      lives = true;
      silentChecks = 0;
    };
    const timer = setInterval(() => {
      if (worker !== this.#worker || this.#closing) {
        clearInterval(timer);
        return;
      }
      const count = Atomics.load(vitals, 0);
      silentChecks += 1;
      if (count !== beats) {
        beats = count;
        isAlive();
      }
      if (silentChecks > (lives ? HUNG_AFTER_CHECKS : HUNG_AT_START_AFTER_CHECKS)) {
        clearInterval(timer);
        this.#events.log.error({ worker: this.index }, "media worker: not responding");
        this.#lost(worker);
        return;
      }
      const memoryMb = Atomics.load(vitals, 1);
      if (memoryMb > maxMemoryMb) {
        clearInterval(timer);
        this.#events.log.error({ worker: this.index, memoryMb, maxMemoryMb }, "media worker: memory limit exceeded");
        this.#lost(worker);
        return;
      }
      this.call("rooms", undefined).then(isAlive, () => {});
    }, PING_INTERVAL_MS);
    timer.unref();
  }

  #take(id: number): Pending | undefined {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    return pending;
  }

  #lost(worker: Worker): void {
    if (worker !== this.#worker || worker === this.#givenUp) return;
    this.#givenUp = worker;
    this.#closing?.resolve();
    for (const { reject } of this.#pending.values())
      reject(new MediaError("RTC_SERVER_UNREACHABLE", "The media worker has died."));
    this.#pending.clear();
    if (this.#closing) return;
    // A newer process has the port now. This worker gets no more rooms, so any other port will do.
    if (this.#settings && this.#offersPort && this.sharesPort) this.#settings = { ...this.#settings, port: 0 };
    this.#sharers = 0;
    if (performance.now() - this.#startedAtMs > STABLE_AFTER_MS) this.#crashes = 0;
    const delayMs = RESTART_DELAYS_MS[Math.min(this.#crashes++, RESTART_DELAYS_MS.length - 1)] ?? 0;
    // Callers that wait for a worker which never listened now wait for the next one.
    if (this.#listens) {
      this.#listens = false;
      this.#ready = Promise.withResolvers();
      this.#ready.promise.catch(() => {});
    }
    const after = (ms: number) => new Promise<void>((done) => this.#timers.after(ms, done));
    const gone = Promise.race([this.#ended, after(LONGEST_END_MS)]);
    worker.terminate();
    void Promise.all([gone, after(delayMs)]).then(() => this.#replace());
    this.#events.onCrash();
  }

  #replace(): void {
    if (this.#closing) return;
    const spawn = () => {
      this.#worker = this.#spawn();
    };
    const onDelay = (err: unknown) =>
      this.#events.log.error({ worker: this.index, err }, "media worker: cannot start a new worker, retrying");
    this.#cancelRestart = startWorkerWhenPossible(this.#timers, spawn, onDelay);
  }

  async call<M extends WorkerMethod>(method: M, request: WorkerRequest<M>): Promise<WorkerResponse<M>> {
    await this.#ready.promise;
    if (!ONLY_LOOKS.has(method)) this.#idle.activity();
    const id = this.#nextId++;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#pending.set(id, { resolve, reject });
    this.#worker.postMessage({ type: "call", id, method, request } as WorkerCall);
    return (await promise) as WorkerResponse<M>;
  }

  relay<M extends keyof RelayCalls>(method: M, request: RelayCalls[M]): Promise<unknown> {
    return this.call(method, request as WorkerRequest<M>);
  }

  async close(): Promise<void> {
    if (this.#closing) return this.#closing.promise;
    this.#closing = Promise.withResolvers();
    this.#idle.stop();
    this.#cancelSecondCollection();
    this.#cancelRestart();
    if (this.#worker === this.#givenUp) this.#closing.resolve();
    else this.#worker.postMessage({ type: "close" } satisfies ToWorker);
    const timeout = setTimeout(() => this.#closing?.resolve(), CLOSE_TIMEOUT_MS);
    await this.#closing.promise;
    clearTimeout(timeout);
    this.#worker.terminate();
  }
}
