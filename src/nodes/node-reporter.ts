import type { Log } from "../kernel/log.ts";
import type { Runtime } from "../kernel/runtime.ts";
import { every, type Timers } from "../kernel/time/timers.ts";
import { ApiError } from "../protocol/errors.ts";
import type { MediaNode } from "../protocol/media-node.ts";
import type { FleetService } from "./fleet.ts";
import type { Heartbeat, RegisterServer } from "./registration/server.schema.ts";

type NodeReporterDeps = {
  node: MediaNode;
  registration: RegisterServer;
  controlPlane: ControlPlane;
  heartbeatTimeoutSeconds: number;
  timers: Timers;
  log: Log;
};

export type NodeReporter = {
  /** Resolves after the first report, successful or not. */
  reported: Promise<void>;
  /** Null when the control plane knows this node, otherwise the reason. */
  problem(): string | null;
  /** Whether another attempt would fail as well: the secret is wrong, or a running node has the name. */
  refused(): boolean;
  stop(): void;
};

/** At least three heartbeats are sent within the timeout. */
const BEAT_EVERY_MS = 10_000;
const REQUEST_TIMEOUT_MS = 5_000;

const REFUSALS: Record<number, string> = {
  401: "the control plane rejects the secret",
  403: "the secret belongs to another media node, or this node has its own secret",
  409: "another media node with this name is running",
};

/**
 * Registers a media node with the control plane and sends heartbeats. A node that the control plane does not know any
 * more (404) registers again; any other failure is retried with the next heartbeat.
 */
export function startNodeReporter(deps: NodeReporterDeps): NodeReporter {
  const { node, registration, controlPlane, heartbeatTimeoutSeconds, timers, log } = deps;
  const intervalMs = Math.min(BEAT_EVERY_MS, (heartbeatTimeoutSeconds * 1000) / 3);
  const { name } = registration;
  const stopping = new AbortController();
  const reported = Promise.withResolvers<void>();
  let problem: string | null = "not registered yet";
  let refused = false;

  /** A control plane in this process has no connection to abort, so the wait itself times out. */
  async function withTimeout(ask: (signal: AbortSignal) => Promise<number>): Promise<number> {
    const signal = AbortSignal.any([stopping.signal, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]);
    signal.throwIfAborted();
    const aborted = Promise.withResolvers<never>();
    const abort = () => aborted.reject(signal.reason);
    signal.addEventListener("abort", abort);
    try {
      return await Promise.race([ask(signal), aborted.promise]);
    } finally {
      signal.removeEventListener("abort", abort);
    }
  }

  async function beat(): Promise<number> {
    const load = await node.load();
    const heartbeat = {
      activeRooms: load.rooms,
      activeParticipants: load.participants,
      cpuPercent: load.cpuPercent ?? undefined,
      memoryPercent: load.memoryPercent ?? undefined,
      networkInBps: load.networkInBps,
      networkOutBps: load.networkOutBps,
    };
    return withTimeout((signal) => controlPlane.beat(name, heartbeat, signal));
  }

  async function report(): Promise<void> {
    try {
      let status = problem === null ? await beat() : 404;
      if (status === 404) {
        status = await withTimeout((signal) => controlPlane.register(registration, signal));
        if (status < 300) {
          // Rooms are placed on the node from now on; its load is reported later.
          settle(null);
          status = await beat();
        }
      }
      refused = status === 401 || status === 403 || status === 409;
      settle(status < 300 ? null : (REFUSALS[status] ?? `the control plane answers ${status}`));
    } catch (error) {
      refused = false;
      settle(reasonOf(error));
    }
  }

  function settle(outcome: string | null): void {
    reported.resolve();
    if (stopping.signal.aborted) return;
    if (outcome !== null && outcome !== problem)
      log.warn({ serverName: name, problem: outcome }, "media node: heartbeat failed");
    if (outcome === null && problem !== null) log.info({ serverName: name }, "media node: registered");
    problem = outcome;
  }

  void report();
  const cancel = every({ timers, log }, intervalMs, report);
  return {
    reported: reported.promise,
    problem: () => problem,
    refused: () => refused,
    stop() {
      cancel();
      stopping.abort();
    },
  };
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if ("code" in error && error.code === "ECONNREFUSED") return "connection refused";
  return error.name === "TimeoutError" ? "it does not answer" : error.message;
}

/** The control plane of a media node. Both methods return the HTTP status of the node routes. */
export type ControlPlane = {
  register(registration: RegisterServer, signal: AbortSignal): Promise<number>;
  beat(name: string, heartbeat: Heartbeat, signal: AbortSignal): Promise<number>;
};

type HttpOptions = {
  /** The control plane's URL, and the secret for its node routes. */
  url: string;
  secret: string;
  fetch: typeof fetch;
};

/** The control plane of a node on another machine. */
export function controlPlaneAt({ url, secret, fetch }: HttpOptions): ControlPlane {
  async function call(method: string, path: string, body: object, signal: AbortSignal): Promise<number> {
    const response = await fetch(`${url}/v1/rtc/servers/${path}`, {
      method,
      headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      signal,
      // An idle connection would delay the shutdown of a server.
      keepalive: false,
    });
    await response.body?.cancel();
    return response.status;
  }

  return {
    register: (registration, signal) => call("POST", "register", registration, signal),
    beat: (name, heartbeat, signal) => call("PUT", `${encodeURIComponent(name)}/heartbeat`, heartbeat, signal),
  };
}

/** The control plane of the node inside this process, without an HTTP request to itself. */
export function ownControlPlane(write: Runtime["write"], fleet: FleetService): ControlPlane {
  const statusOf = (written: Promise<unknown>) =>
    written.then(
      () => 200,
      (error) => {
        if (error instanceof ApiError) return error.status;
        throw error;
      },
    );
  return {
    register: (registration) => statusOf(write((unit) => fleet.register(unit, registration))),
    beat: (name, heartbeat) => statusOf(write((unit) => fleet.beat(unit, name, heartbeat))),
  };
}
