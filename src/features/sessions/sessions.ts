import type { Runtime } from "../../kernel/runtime.ts";
import type { MediaNode } from "../../protocol/media-node.ts";
import { type CallDeps, createCalls } from "./calls/calls.ts";
import { createConnections } from "./connections/connection.service.ts";
import { createActivity } from "./metrics/activity.ts";
import {
  createDiagnostics,
  databaseProbe,
  mailProbe,
  mediaProbe,
  storageProbe,
  type WebhookBacklog,
  webhookProbe,
} from "./metrics/diagnostics.ts";
import { traceJoins } from "./metrics/join-traces.ts";
import { createMetrics } from "./metrics/metrics.ts";
import { exportMetrics } from "./metrics/prometheus.ts";

type SessionDeps = Omit<CallDeps, "connectionHistory"> & {
  findNode: (name: string) => Pick<MediaNode, "load" | "flight"> | null | undefined;
  mailer: { delivers: boolean; check(): Promise<void> };
  webhookBacklog: (projectId: string) => WebhookBacklog;
  /** Pending webhook deliveries of all projects. */
  webhookQueue: () => number;
};

export type Sessions = ReturnType<typeof createSessions>;

/**
 * The history of rooms: connections with their errors and flight records, calls with their participations and verdicts,
 * the metrics derived from them, and the state of the server's dependencies.
 */
export function createSessions(runtime: Runtime, deps: SessionDeps) {
  const { findNode, mailer, webhookBacklog, webhookQueue, ...callDeps } = deps;
  const mediaLoad = async () => {
    const node = findNode(runtime.config.SFU_NODE_NAME);
    if (!node) throw new Error("the media node of this server is not running");
    return node.load();
  };
  traceJoins(runtime);
  exportMetrics(runtime, { mediaLoad, webhookQueue });
  const connections = createConnections(runtime, { findNode });
  const activity = createActivity(runtime);
  return {
    connections,
    recorder: connections.recorder,
    calls: createCalls(runtime, { ...callDeps, connectionHistory: connections.history }),
    activity,
    metrics: createMetrics(runtime, activity),
    diagnostics: createDiagnostics(runtime, {
      database: databaseProbe(runtime),
      media: mediaProbe(mediaLoad),
      storage: storageProbe(runtime),
      webhooks: webhookProbe(webhookBacklog, runtime.now),
      mail: mailProbe(mailer),
    }),
  };
}
