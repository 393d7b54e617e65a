import type { Runtime } from "../../kernel/runtime.ts";
import type { MediaNode } from "../../protocol/media-node.ts";
import {
  createDiagnostics,
  databaseProbe,
  mailProbe,
  mediaProbe,
  storageProbe,
  type WebhookBacklog,
  webhookProbe,
} from "./diagnostics.ts";
import { traceJoins } from "./join-traces.ts";
import { observabilityReads } from "./observability.reads.ts";
import { observabilityService } from "./observability.service.ts";
import { measure } from "./prometheus.ts";

type ObservabilityDeps = {
  findNode: (name: string) => Pick<MediaNode, "load" | "flight"> | null | undefined;
  mailer: { delivers: boolean; check(): Promise<void> };
  webhookBacklog: (projectId: string) => WebhookBacklog;
  /** Deliveries that wait, over all projects. */
  webhookQueue: () => number;
};

/** The feature as a whole: what happened to connections, the figures, and how the server's dependencies are. */
export function createObservability(
  runtime: Runtime,
  { findNode, mailer, webhookBacklog, webhookQueue }: ObservabilityDeps,
) {
  const mediaLoad = async () => {
    const node = findNode(runtime.config.SFU_NODE_NAME);
    if (!node) throw new Error("the media node of this server is not running");
    return node.load();
  };
  traceJoins(runtime);
  measure(runtime, { mediaLoad, webhookQueue });
  const observability = observabilityService(runtime, { findNode });
  const diagnostics = createDiagnostics(runtime, {
    database: databaseProbe(runtime),
    media: mediaProbe(mediaLoad),
    storage: storageProbe(runtime),
    webhooks: webhookProbe(webhookBacklog, runtime.now),
    mail: mailProbe(mailer),
  });
  return { ...observability, reads: observabilityReads(observability, diagnostics) };
}
