import type { Log } from "../kernel/log.ts";
import { every, type Timers } from "../kernel/time/timers.ts";
import type { MediaNode } from "../protocol/media-node.ts";
import type { ControlPlane } from "./control-plane.ts";
import type { RegisterServer } from "./fleet.ts";

type AgentDeps = {
  node: MediaNode;
  registration: RegisterServer;
  controlPlane: ControlPlane;
  heartbeatTimeoutSeconds: number;
  timers: Timers;
  log: Log;
};

export type Agent = {
  /** Whether the control plane knows this node has been asked once, and answered well or badly. */
  reported: Promise<void>;
  /** Null when the control plane knows this node; otherwise why it does not. */
  problem(): string | null;
  /** Trying again would get the same answer: the secret is wrong, or a living node has the name. */
  refused(): boolean;
  stop(): void;
};

/** Every 10 s, but never more seldom than three times within the timeout. */
const BEAT_EVERY_MS = 10_000;
const REQUEST_TIMEOUT_MS = 5_000;

const REFUSALS: Record<number, string> = {
  401: "the control plane refuses the secret",
  403: "the secret is that of another media node, or this one has a secret of its own",
  409: "another media node of this name is alive",
};

/**
 * Makes a media node known to the control plane and keeps it known. A node that was forgotten (404) registers again; any
 * other failure is tried again with the next beat.
 */
export function startAgent(deps: AgentDeps): Agent {
  const { node, registration, controlPlane, heartbeatTimeoutSeconds, timers, log } = deps;
  const intervalMs = Math.min(BEAT_EVERY_MS, (heartbeatTimeoutSeconds * 1000) / 3);
  const { name } = registration;
  const stopping = new AbortController();
  const asked = Promise.withResolvers<void>();
  let problem: string | null = "not registered yet";
  let refused = false;

  /** A control plane in this process has no connection to cut: whoever waits for it stops waiting. */
  async function answer(ask: (signal: AbortSignal) => Promise<number>): Promise<number> {
    const signal = AbortSignal.any([stopping.signal, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]);
    signal.throwIfAborted();
    const givenUp = Promise.withResolvers<never>();
    const giveUp = () => givenUp.reject(signal.reason);
    signal.addEventListener("abort", giveUp);
    try {
      return await Promise.race([ask(signal), givenUp.promise]);
    } finally {
      signal.removeEventListener("abort", giveUp);
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
    return answer((signal) => controlPlane.beat(name, heartbeat, signal));
  }

  async function report(): Promise<void> {
    try {
      let status = problem === null ? await beat() : 404;
      if (status === 404) {
        status = await answer((signal) => controlPlane.register(registration, signal));
        if (status < 300) {
          // Rooms are placed on it from now on; how busy it is may be told a moment later.
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
    asked.resolve();
    if (stopping.signal.aborted) return;
    if (outcome !== null && outcome !== problem) log.warn({ serverName: name, problem: outcome }, "heartbeat failed");
    if (outcome === null && problem !== null) log.info({ serverName: name }, "media node registered");
    problem = outcome;
  }

  void report();
  const cancel = every({ timers, log }, intervalMs, report);
  return {
    reported: asked.promise,
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
  if ("code" in error && error.code === "ECONNREFUSED") return "nobody listens there";
  return error.name === "TimeoutError" ? "it does not answer" : error.message;
}
