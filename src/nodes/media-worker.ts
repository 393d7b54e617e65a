/** One Worker of the embedded node: its calls, its events, and its return after a crash. */
import { workerUrl } from "../kernel/assets.ts";
import { type IdleThresholds, onIdle } from "../kernel/scheduling/idle.ts";
import { systemTimers, type Timers } from "../kernel/time/timers.ts";
import {
  MediaError,
  type MediaEvent,
  type MediaMethod,
  type MediaRequest,
  type MediaResponse,
} from "../protocol/media-node.ts";
import {
  type FromWorker,
  ONLY_LOOKS,
  type ToWorker,
  type WorkerCall,
  type WorkerSettings,
} from "../sfu/worker-protocol.ts";

/** A worker that dies again and again must not spin. */
const RESTART_DELAYS_MS = [0, 250, 1_000, 4_000];
/** One that lived this long starts from the first delay. */
const STABLE_AFTER_MS = 30_000;
const CLOSE_TIMEOUT_MS = 2_000;
/** A worker that answers nothing for so long hangs, and is replaced like one that died. */
const PING_INTERVAL_MS = 2_000;
/** Looks in which it gave no sign of life. Not by a clock: where the whole process waits for a processor, so do they. */
const HUNG_AFTER_LOOKS = 5;
/** Before its first sign: it has a call to play to itself, beside others that do the same. */
const HUNG_AT_START_AFTER_LOOKS = 30;
/** How long the port of one that was given up may stay its own; who comes next would find it taken. */
const LONGEST_END_MS = 10_000;
/** Of calls that change something: about a hundred people who came, and fewer than ten calls a second since. */
const AFTER_A_STORM: IdleThresholds = { minEvents: 300, checkEveryMs: 15_000, maxEvents: 150 };
/** Whoever was cut off is expected back for half a minute: what they leave is let go of only then. */
const AND_AGAIN_AFTER_MS = 60_000;

type MediaWorkerEvents = {
  onEvent(event: MediaEvent): void;
  onCrash(): void;
  log: { info(details: object, message: string): void; error(details: object, message: string): void };
};

type Pending = { resolve(response: unknown): void; reject(error: Error): void };

export class MediaWorker {
  readonly index: number;
  /** Null until it is put to work. */
  #settings: WorkerSettings | null = null;
  readonly #events: MediaWorkerEvents;
  readonly #pending = new Map<number, Pending>();
  #worker: Worker;
  /** The one that was given up, until another takes its place: of its end there is more than one sign. */
  #givenUp: Worker | null = null;
  /** Resolves when the thread of the last one has ended, and its sockets with it. */
  #ended: Promise<void> = Promise.resolve();
  #vitals: Int32Array = new Int32Array(2);
  #ready: PromiseWithResolvers<void>;
  #listens = false;
  /** It has listened before: what keeps it from its port now will pass. */
  #hasListened = false;
  readonly #storm: ReturnType<typeof onIdle>;
  #cancelAgain = () => {};
  #nextId = 1;
  #startedAtMs = 0;
  #crashes = 0;
  #closing: PromiseWithResolvers<void> | null = null;

  /** The thread loads its code from now on, which takes longer than all that is to be known before `start`. */
  constructor(index: number, events: MediaWorkerEvents, timers: Timers = systemTimers) {
    this.index = index;
    this.#events = events;
    const tell = () => this.#worker.postMessage({ type: "calm" } satisfies ToWorker);
    const tellTwice = () => {
      tell();
      this.#cancelAgain();
      this.#cancelAgain = timers.after(AND_AGAIN_AFTER_MS, tell);
    };
    const onError = (error: unknown) => events.log.error({ worker: index, error }, "media worker was not told of calm");
    this.#storm = onIdle(AFTER_A_STORM, timers, tellTwice, onError);
    this.#ready = Promise.withResolvers();
    this.#worker = this.#spawn();
  }

  /** Resolves when the sockets are bound; rejects when they cannot be. */
  start(settings: WorkerSettings): Promise<void> {
    this.#settings = { ...settings };
    // One that died while it loaded has a successor, who finds the settings.
    if (this.#worker !== this.#givenUp) this.#putToWork(this.#worker);
    return this.#ready.promise;
  }

  /** 0 before there is one. */
  get port(): number {
    return this.#settings?.port ?? 0;
  }

  #spawn(): Worker {
    const worker = new Worker(workerUrl("sfu/worker.ts"));
    this.#startedAtMs = performance.now();
    worker.onmessage = ({ data }: MessageEvent<FromWorker>) => {
      if (worker !== this.#givenUp) this.#received(data);
    };
    worker.onerror = (event) => {
      this.#events.log.error({ worker: this.index, error: event.message }, "media worker failed");
      this.#lost(worker);
    };
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    this.#ended = ended;
    worker.addEventListener("close", () => {
      end();
      this.#lost(worker);
    });
    this.#putToWork(worker);
    return worker;
  }

  #putToWork(worker: Worker): void {
    const settings = this.#settings;
    if (!settings) return;
    const vitals = new Int32Array(new SharedArrayBuffer(8));
    this.#vitals = vitals;
    worker.postMessage({ type: "start", settings, vitals } satisfies ToWorker);
  }

  #received(message: FromWorker): void {
    switch (message.type) {
      case "started":
        // A restarted worker must come back under the port that clients know.
        if (this.#settings) this.#settings.port = message.port;
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
          "media worker listens",
        );
        this.#ready.resolve();
        break;
      case "refused":
        if (!this.#hasListened) {
          this.#ready.reject(new Error(`The media worker cannot start: ${message.message}`));
          break;
        }
        this.#events.log.error({ worker: this.index, error: message.message }, "media worker cannot start again yet");
        this.#lost(this.#worker);
        break;
      case "event":
        this.#events.onEvent(message.event);
        break;
      case "fault":
        this.#events.log.error({ worker: this.index, error: message.message }, "fault in the media worker");
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
   * Replaces a worker that neither answers nor beats, and one that holds too much: before the machine ends all of them.
   * One that only beats is busy: it sheds packets, not calls.
   */
  #watch(): void {
    const worker = this.#worker;
    const vitals = this.#vitals;
    const maxMemoryMb = this.#settings?.maxMemoryMb ?? Number.POSITIVE_INFINITY;
    let beats = 0;
    let lives = false;
    let silentLooks = 0;
    const isAlive = () => {
      lives = true;
      silentLooks = 0;
    };
    const timer = setInterval(() => {
      if (worker !== this.#worker || this.#closing) {
        clearInterval(timer);
        return;
      }
      const count = Atomics.load(vitals, 0);
      silentLooks += 1;
      if (count !== beats) {
        beats = count;
        isAlive();
      }
      if (silentLooks > (lives ? HUNG_AFTER_LOOKS : HUNG_AT_START_AFTER_LOOKS)) {
        clearInterval(timer);
        this.#events.log.error({ worker: this.index }, "media worker hangs");
        this.#lost(worker);
        return;
      }
      const memoryMb = Atomics.load(vitals, 1);
      if (memoryMb > maxMemoryMb) {
        clearInterval(timer);
        this.#events.log.error({ worker: this.index, memoryMb, maxMemoryMb }, "media worker holds too much memory");
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
    if (performance.now() - this.#startedAtMs > STABLE_AFTER_MS) this.#crashes = 0;
    const delayMs = RESTART_DELAYS_MS[Math.min(this.#crashes++, RESTART_DELAYS_MS.length - 1)] ?? 0;
    // Whoever waits for a worker that never listened waits for the next one.
    if (this.#listens) {
      this.#listens = false;
      this.#ready = Promise.withResolvers();
      this.#ready.promise.catch(() => {});
    }
    const gone = Promise.race([this.#ended, after(LONGEST_END_MS)]);
    worker.terminate();
    void Promise.all([gone, after(delayMs)]).then(() => {
      if (!this.#closing) this.#worker = this.#spawn();
    });
    this.#events.onCrash();
  }

  async call<M extends MediaMethod>(method: M, request: MediaRequest<M>): Promise<MediaResponse<M>> {
    await this.#ready.promise;
    if (!ONLY_LOOKS.has(method)) this.#storm.activity();
    const id = this.#nextId++;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#pending.set(id, { resolve, reject });
    this.#worker.postMessage({ type: "call", id, method, request } as WorkerCall);
    return (await promise) as MediaResponse<M>;
  }

  async close(): Promise<void> {
    if (this.#closing) return this.#closing.promise;
    this.#closing = Promise.withResolvers();
    this.#storm.stop();
    this.#cancelAgain();
    if (this.#worker === this.#givenUp) this.#closing.resolve();
    else this.#worker.postMessage({ type: "close" } satisfies ToWorker);
    const timeout = setTimeout(() => this.#closing?.resolve(), CLOSE_TIMEOUT_MS);
    await this.#closing.promise;
    clearTimeout(timeout);
    this.#worker.terminate();
  }
}

const after = (ms: number) => new Promise<void>((done) => setTimeout(done, ms).unref());
