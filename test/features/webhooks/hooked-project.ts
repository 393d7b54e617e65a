import type { WebhookEvent } from "../../../src/features/webhooks/events.ts";
import type { Environment } from "../../../src/protocol/enums.ts";
import type { Reply, TestServer } from "../../harness/server.ts";
import { type Receiver, startReceiver } from "./receiver.ts";

type HookedProject = {
  projectId: string;
  key: string;
  token: string;
  /** Calls a webhook route of the project as its developer. */
  call(method: string, path: string, body?: unknown): Promise<Reply>;
  /** Registers an endpoint and returns it with its secret. */
  register(url: string, options?: object): Promise<Webhook>;
  /** Publishes one event. */
  announce(identity?: string): Promise<void>;
  deliveries(webhookId: string): Promise<Delivery[]>;
};

export type Webhook = { id: string; secret: string; url: string; status: string; disabledReason: string | null };
export type Delivery = {
  id: string;
  eventId: string;
  eventType: string;
  status: string;
  attempts: { at: string; statusCode: number | null; durationMs: number; error: string | null }[];
  attemptCount: number;
  nextAttemptAt: string | null;
  lastError: string | null;
  deliveredAt: string | null;
};

/** A project, a member who may manage its webhooks, and a way to publish events without another feature. */
export async function hookedProject(
  server: TestServer,
  environment: Environment = "DEVELOPMENT",
): Promise<HookedProject> {
  const { projectId, key } = await server.project({ environment });
  const signIn = async () => ({ at: server.clock.now(), ...(await server.session({ projectId, role: "DEVELOPER" })) });
  let session = await signIn();
  const call: HookedProject["call"] = async (method, path, body) => {
    // A session lasts an hour, and these tests advance the clock by days.
    if (Math.abs(server.clock.now() - session.at) > 1_800_000) session = await signIn();
    return server.call(method, `/v1/projects/${projectId}/webhooks${path}`, { key: session.token, body });
  };
  return {
    projectId,
    key,
    token: session.token,
    call,
    async register(url, options = {}) {
      const { status, body } = await call("POST", "", { url, environment, ...options });
      if (status !== 201) throw new Error(`not registered: ${JSON.stringify(body)}`);
      return body as Webhook;
    },
    announce: (identity = "ann") =>
      server.runtime.write((unit) =>
        server.runtime.bus.publish(unit, "webhook", viewerJoined(projectId, environment, identity, server.clock.now())),
      ),
    deliveries: async (webhookId) => (await call("GET", `/${webhookId}/deliveries`)).body as unknown as Delivery[],
  };
}

function viewerJoined(projectId: string, environment: Environment, identity: string, at: number): WebhookEvent {
  const data = { streamId: "stream_1", identity, at: new Date(at).toISOString() };
  return { type: "live_stream.viewer_joined", projectId, environment, at, data };
}

type HookedEndpoint = HookedProject & {
  id: string;
  receiver: Receiver;
  webhook(): Promise<Record<string, unknown>>;
  /** The newest delivery of the endpoint. */
  delivery(): Promise<Delivery | undefined>;
};

/** Makes a project with one endpoint for each test, so that no test sees another's deliveries. */
export async function hookedEndpoint(server: TestServer, options: object = {}): Promise<HookedEndpoint> {
  const project = await hookedProject(server);
  const receiver = startReceiver();
  const { id } = await project.register(receiver.url, options);
  return {
    ...project,
    id,
    receiver,
    webhook: async () => (await project.call("GET", `/${id}`)).body,
    delivery: async () => (await project.deliveries(id))[0],
  };
}
