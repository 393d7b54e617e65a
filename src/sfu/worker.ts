/** Entry point of a media worker: a socket, an engine, and the messages of the main thread. */
import "./werift/reflect.ts";
import { createIdleCollector } from "../kernel/scheduling/idle.ts";
import { MediaError, type MediaEvent, type RelayEvent } from "../protocol/media-node.ts";
import { Engine, type EngineOutput } from "./engine.ts";
import { raiseThreadPriority } from "./thread-priority.ts";
import { warmUp } from "./warm-up/warm-up.ts";
import type { FromWorker, ToWorker, WorkerCall, WorkerSettings } from "./worker-protocol.ts";

declare const self: Worker;

const VITALS_INTERVAL_MS = 1_000;
/** A server that has just started is busy with other things, and one that ends again soon needs no warm-up. */
const WARM_UP_DELAY_MS = 3_000;
const MIB = 1024 * 1024;

/** All state lives in this closure: one worker, one engine. */
function serve(): void {
  let engine: Engine | null = null;
  let closed = false;
  const collectGarbage = createIdleCollector();
  const post = (message: FromWorker) => self.postMessage(message);

  const fault = (error: unknown) =>
    post({ type: "fault", message: error instanceof Error ? (error.stack ?? error.message) : String(error) });

  const call = (request: WorkerCall) => {
    const { id } = request;
    try {
      if (!engine) throw new MediaError("RTC_SERVER_UNREACHABLE", "The media worker has not started.");
      post({ type: "answer", id, response: engine.call(request) });
    } catch (error) {
      const code = error instanceof MediaError ? error.code : null;
      post({ type: "error", id, code, message: error instanceof Error ? error.message : String(error) });
    }
  };

  /**
   * A worker that already has a call needs no warm-up, because the call compiles its code. A worker without loopback cannot run
   * one. The priority is raised afterwards, because the warm-up must not delay the calls of an older process or another worker.
   */
  const warmUpEngine = async (fresh: Engine, settings: WorkerSettings, output: EngineOutput) => {
    if (!closed && fresh.packetsIn === 0) await warmUp(settings, output, () => closed).catch(() => {});
    raiseThreadPriority();
  };

  const start = async (settings: WorkerSettings, vitals: Int32Array) => {
    try {
      const output = {
        emit: (event: MediaEvent) => post({ type: "event", event }),
        relay: (event: RelayEvent) => post({ type: "relay", event }),
        portShared: (others: number) => post({ type: "portShared", others }),
        onFault: fault,
        beat: () => Atomics.add(vitals, 0, 1),
      };
      const started = await Engine.start(settings, output, { usesReceiveLoop: true });
      engine = started;
      setInterval(() => {
        Atomics.store(vitals, 1, heldMb(settings.maxMemoryMb ?? Number.POSITIVE_INFINITY));
        Atomics.store(vitals, 2, started.busyPercent ?? 0);
      }, VITALS_INTERVAL_MS);
      if (settings.warmUp === false) raiseThreadPriority();
      else setTimeout(warmUpEngine, WARM_UP_DELAY_MS, engine, settings, output);
      post({ type: "started", address: engine.address, port: engine.port, fanOut: engine.fanOut, ...engine.tuning });
    } catch (error) {
      post({ type: "refused", message: error instanceof Error ? error.message : String(error) });
    }
  };

  self.onmessage = ({ data }: MessageEvent<ToWorker>) => {
    switch (data.type) {
      case "start":
        void start(data.settings, data.vitals);
        break;
      case "call":
        call(data);
        break;
      case "collectGarbage":
        collectGarbage();
        break;
      case "close":
        closed = true;
        engine?.close();
        post({ type: "closed" });
        break;
    }
  };

  // werift leaves some promises without a handler. An error with one peer must not end the calls of all others.
  process.on("unhandledRejection", fault);
}

/** The memory of this thread, in MiB. If it is above the bound, garbage is collected before measuring. */
function heldMb(maxMb: number): number {
  const measured = () => Math.ceil(process.memoryUsage().heapUsed / MIB);
  try {
    if (measured() <= maxMb) return measured();
    Bun.gc(true);
    return measured();
  } catch {
    // Bun reads /proc for this, which fails without a free descriptor. It is measured again a second later.
    return 0;
  }
}

serve();
