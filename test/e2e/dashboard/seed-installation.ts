/** Adds members, webhooks, servers and chat connections around the data of `seed`. */
import { writeCall } from "./seed-call.ts";
import { writeHistory } from "./seed-history.ts";
import type { Stage } from "./stage.ts";

const BY_COMMAND_LINE = { actor: null, request: null, environment: "DEVELOPMENT" as const };

const COLLEAGUES = [
  ["Katherine Johnson", "katherine@acme.example", "ADMIN"],
  ["Edsger Dijkstra", "edsger@acme.example", "DEVELOPER"],
  ["Barbara Liskov", "barbara@acme.example", "VIEWER"],
] as const;

export async function seedInstallation(
  stage: Stage,
): Promise<{ connectionId: string; callId: string; close(): Promise<void> }> {
  const { server } = stage;
  const { runtime, services, projectId } = server;
  const tenant = { projectId, environment: "DEVELOPMENT" as const };
  const healthy = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("ok") });
  const taken = await runtime.write((unit) => {
    const owner = services.users.findByEmail("owner@example.com");
    if (!owner) throw new Error("the harness made no owner");
    services.users.update(unit, owner.id, { name: "Ada Lovelace" });
    services.projects.update(
      unit,
      projectId,
      { name: "Acme Meet", description: "Video calls for acme.example" },
      BY_COMMAND_LINE,
    );
    services.projects.create(unit, owner.id, { name: "Acme Events", description: "Live streams and their chats" });
    const { id: old } = services.projects.create(unit, owner.id, { name: "Prototype 2024" });
    services.projects.archive(unit, old, BY_COMMAND_LINE);
    for (const [name, email, role] of COLLEAGUES) {
      const identity = { email, name, passwordHash: null, emailVerified: true, isOperator: false };
      services.members.add(unit, projectId, services.users.create(unit, identity).id, role, BY_COMMAND_LINE);
    }
    services.invitations.addByEmail(
      unit,
      projectId,
      { email: "radia@acme.example", role: "DEVELOPER" },
      "OWNER",
      BY_COMMAND_LINE,
    );
    services.apiKeys.create(unit, projectId, { name: "Backend", environment: "DEVELOPMENT" });
    const { key: _, ...laptop } = services.apiKeys.create(unit, projectId, {
      name: "Laptop",
      environment: "DEVELOPMENT",
    });
    services.apiKeys.revoke(unit, projectId, laptop.id);
    const endpoint = services.webhooks.create(
      unit,
      projectId,
      { url: `http://127.0.0.1:${healthy.port}/events`, environment: "DEVELOPMENT" },
      BY_COMMAND_LINE,
    );
    services.liveStreams.streams.create(unit, tenant, {
      title: "Product launch",
      hostIdentity: "katherine",
      scheduledAt: new Date(runtime.now() + 3 * 86_400_000).toISOString(),
    });
    return endpoint;
  });
  await Promise.all(["design-review", "support-desk"].map((name) => server.room(name)));
  // The server is drained, because it does not exist and must get no rooms.
  await runtime.write((unit) => {
    const node = { region: "eu-west", publicHost: "media-2.acme.example", internalUrl: "https://10.0.3.2:7000" };
    services.fleet.register(unit, { name: "media-2", ...node, capacity: 400, version: "0.1.0" });
    services.fleet.beat(unit, "media-2", {
      activeRooms: 312,
      activeParticipants: 1_460,
      cpuPercent: 81,
      memoryPercent: 46,
      networkInBps: 412_000_000,
      networkOutBps: 2_310_000_000,
    });
    services.fleet.drain(unit, "media-2");
  });
  showLinks(stage);
  const sockets = await Promise.all(["ada", "grace"].map((userId) => connectChat(stage, userId)));
  const { connectionId } = await writeHistory(stage);
  const { callId } = await writeCall(stage);
  while (services.deliveries.list(taken.id, "DELIVERED", "~", 1).length === 0) await Bun.sleep(20);
  return {
    connectionId,
    callId,
    async close() {
      for (const socket of sockets) socket.close();
      await healthy.stop(true);
    },
  };
}

async function connectChat({ server }: Stage, userId: string): Promise<WebSocket> {
  const { body } = await server.call("POST", "/v1/chat/tokens", { userId });
  const socket = new WebSocket(`${server.url.replace("http", "ws")}/v1/chat/ws?token=${body.token}`);
  await new Promise((opened) => {
    socket.onmessage = opened;
  });
  return socket;
}

/** Links without packets, as two rooms on three servers have them. */
function showLinks({ server: { services, projectId } }: Stage): void {
  const site = (serverName: string, region: string, participants: number) => ({ serverName, region, participants });
  const link = (id: string, servers: [string, string], rttMs: number | null, lossPercent: number | null) => ({
    id,
    servers,
    state: rttMs === null ? null : ("up" as const),
    rttMs,
    lossPercent,
    limitBps: null,
    tracks: 212,
    rooms: 1,
  });
  Object.assign(services.signaling, {
    links: () => ({
      links: [
        { ...link("1", ["media-1.eu.acme.example", "media-2"], 81.4, 0.2), rooms: 2 },
        { ...link("2", ["media-2", "media-3"], 143, 6.4), limitBps: 1_840_000 },
        link("3", ["media-1.eu.acme.example", "media-3"], null, null),
      ],
      rooms: [
        {
          id: crypto.randomUUID(),
          projectId,
          name: "all-hands",
          links: ["1", "2", "3"],
          sites: [
            site("media-1.eu.acme.example", "eu-west", 412),
            site("media-2", "us-east", 96),
            site("media-3", "ap-south", 1),
          ],
        },
        {
          id: crypto.randomUUID(),
          projectId,
          name: "design-review",
          links: ["1"],
          sites: [site("media-2", "us-east", 3), site("media-1.eu.acme.example", "eu-west", 2)],
        },
      ],
    }),
  });
}
