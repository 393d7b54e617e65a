/** Attempts of a tenant with its own API key and account to name, hide or reach what is not its own. */
import { expect } from "bun:test";
import { createServer, type Socket } from "node:net";
import { SignalingClient } from "../../src/rtc-client/signaling-client.ts";
import { PROGRAM, ROOT } from "../cli/stoa.ts";
import { newBrowser } from "../features/push/browser.ts";
import { createApi } from "../harness/api.ts";
import { until } from "../nodes/remote/until.ts";
import type { AttackedServer, AttackedTenant } from "./attacked-server.ts";

type Stage = {
  server: AttackedServer;
  tenant: AttackedTenant /** Its key is one of PRODUCTION. */;
  live: AttackedTenant;
};

/** A name of the attacker's domain that leads into the server's network. */
export const INSIDE = "inside.attacker.example";

/** Clears the screen, sets the title, moves the cursor (C1), and turns the direction of the text around. */
const CONTROLS = "\u001b[2J\u001b]0;pwned\u0007\u009b1;1H\u0085\u202epwned";
const CONTROL = /[^\P{Cc}\n\t]|\u202e/u;

/** A service in the server's network that records who connects. */
async function service() {
  const sockets = new Set<Socket>();
  let connections = 0;
  const listener = createServer((socket) => {
    connections += 1;
    sockets.add(socket);
    socket.on("error", () => {});
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const port = (listener.address() as { port: number }).port;
  const close = () => {
    for (const socket of sockets) socket.destroy();
    listener.close();
  };
  return { port, close, connections: () => connections };
}

async function closedPort(): Promise<number> {
  const { port, close } = await service();
  close();
  return port;
}

/** What the tenant learns from an endpoint that does not answer. */
async function deliveryTo({ live }: Stage, url: string): Promise<unknown> {
  const { status, body } = await live.call("POST", "/v1/webhooks", { url, events: [] });
  if (status !== 201) return status;
  const sent = (await live.call("POST", `/v1/webhooks/${body.id}/test`)).body;
  const read = async () => (await live.call("GET", `/v1/webhooks/${body.id}/deliveries/${sent.id}`)).body;
  await until(async () => Number((await read()).attemptCount) > 0);
  const { lastError } = await read();
  await live.call("DELETE", `/v1/webhooks/${body.id}`);
  return lastError;
}

export const TENANT_ATTACKS: Record<string, (stage: Stage) => Promise<void>> = {
  async "names with control characters do not reach the operator's terminal"({ server, tenant }) {
    const { call } = await server.operator();
    const named = (field: string) => ({ name: `${field} ${CONTROLS}` });
    await call("PATCH", `/v1/projects/${tenant.projectId}`, named("project"));
    await call("POST", `/v1/projects/${tenant.projectId}/api-keys`, { ...named("key"), environment: "DEVELOPMENT" });
    for (const args of [
      ["keys", "list"],
      ["keys", "list", "--json"],
    ]) {
      const shown = await server.run(args);
      expect(shown).toContain("pwned");
      expect([args, CONTROL.exec(shown)?.[0]]).toEqual([args, undefined]);
    }
  },

  async "messages with control characters do not reach the terminal of `stoa join`"({ server, tenant }) {
    const roomId = await tenant.room("watched");
    const watching = Bun.spawn([...PROGRAM, "join", "watched", "--url", server.url, "--identity", "operator"], {
      env: { PATH: process.env.PATH ?? "", HOME: "/nonexistent", STOA_API_KEY: tenant.key },
      cwd: ROOT,
      stdin: "ignore",
      stdout: "pipe",
      stderr: "ignore",
    });
    let shown = "";
    void (async () => {
      for await (const chunk of watching.stdout) shown += Buffer.from(chunk).toString();
    })();
    await until(() => shown.includes("joined"));
    const mallory = new SignalingClient({ url: server.url, token: (await tenant.mint(roomId, "mallory")).token });
    await mallory.join();
    await mallory.request("data.send", { payload: CONTROLS, topic: CONTROLS });
    await until(() => shown.includes("dataReceived") && shown.endsWith("\n"));
    watching.kill("SIGKILL");
    await mallory.leave();
    expect(shown).toContain("pwned");
    expect(CONTROL.exec(shown)?.[0]).toBeUndefined();
  },

  async "what is done to participants, members and nodes is in the audit log, with who did it"({ server, tenant }) {
    const { call } = await server.operator();
    const { projectId } = tenant;
    const room = crypto.randomUUID();
    const roomId = await tenant.room(room);
    const enter = async (identity: string) => {
      const { token } = await tenant.mint(roomId, identity);
      await new SignalingClient({ url: server.url, token }).join();
    };
    await enter("ann");
    await enter("ben");
    expect((await tenant.call("DELETE", `/v1/rooms/${roomId}/participants/ann`)).status).toBe(204);
    const admin = { roomAdmin: true, roomCreate: true, ingressAdmin: true, room };
    const calls: [string, object][] = [
      ["RoomService/UpdateParticipant", { room, identity: "ben", name: "Ben" }],
      ["RoomService/UpdateRoomMetadata", { room, metadata: "changed" }],
      ["RoomService/RemoveParticipant", { room, identity: "ben" }],
      ["AgentDispatchService/CreateDispatch", { room, agentName: "helper" }],
      ["Ingress/CreateIngress", { inputType: "WHIP_INPUT", roomName: room, participantIdentity: "encoder" }],
      ["RoomService/DeleteRoom", { room }],
    ];
    for (const [method, body] of calls) {
      expect([method, (await tenant.twirp(method, admin, body))[0]]).toEqual([method, 200]);
    }
    await call("POST", `/v1/projects/${projectId}/members`, { email: "mallory@example.com", role: "VIEWER" });
    await server.run(["node-keys", "create", "rogue"]);
    const entriesAt = async (path: string) =>
      (await call("GET", `${path}?limit=200`)).body as unknown as { action: string; actorType: string }[];
    const found = (await entriesAt(`/v1/projects/${projectId}/audit-logs`)).map(
      ({ action, actorType }) => `${action} ${actorType}`,
    );
    const byKey = ["participant.removed", "participant.updated", "room.updated", "room.closed"];
    for (const action of [...byKey, "room.agent_dispatched", "ingress.created"])
      expect(found).toContain(`${action} api_key`);
    expect(found.filter((entry) => entry === "participant.removed api_key")).toHaveLength(2);
    expect(found.some((entry) => /^(member|invitation)\.\w+ user$/.test(entry))).toBe(true);
    expect((await entriesAt("/v1/audit-logs")).map(({ action }) => action)).toContain("node_key.created");
  },

  async "webhooks reach no private address, and do not tell open ports from closed ones"(stage) {
    const inside = await service();
    const spellings = ["127.0.0.1", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "localhost", "127.1", "0"];
    for (const host of spellings)
      expect([host, await deliveryTo(stage, `https://${host}:${inside.port}/`)]).toEqual([host, 400]);
    const [open, closed] = [
      await deliveryTo(stage, `https://${INSIDE}:${inside.port}/`),
      await deliveryTo(stage, `https://${INSIDE}:${await closedPort()}/`),
    ];
    expect([open, closed]).toEqual(["no HTTP response", "no HTTP response"]);
    expect(inside.connections()).toBe(0);
    inside.close();
  },

  async "pushes, ingresses and LiveKit webhooks reach no private address either"(stage) {
    const { server, live } = stage;
    const inside = await service();
    const url = `https://${INSIDE}:${inside.port}/`;
    const members = [{ userId: "ann" }, { userId: "eve" }];
    const conversation = (await live.call("POST", "/v1/chat/conversations", { name: "pushed", members })).body.id;
    const { token } = (await live.call("POST", "/v1/chat/tokens", { userId: "eve" })).body;
    const eve = createApi(server.url, String(token));
    const subscribed = await eve.call("POST", "/v1/chat/push/subscriptions", {
      endpoint: url,
      keys: newBrowser().keys,
    });
    expect(subscribed.status).toBe(201);
    await live.call("POST", `/v1/chat/conversations/${conversation}/messages`, { senderId: "ann", text: "hello" });
    for (const address of [url, `http://127.0.0.1:${inside.port}/a.m3u8`, "file:///etc/passwd", "concat:/etc/passwd"]) {
      const ingress = { inputType: "URL_INPUT", roomName: "r", participantIdentity: "i", url: address };
      const [status] = await live.twirp("Ingress/CreateIngress", { ingressAdmin: true }, ingress);
      expect([address, status]).toEqual([address, 400]);
    }
    const { body: key } = await live.call("POST", "/v1/webhooks", { url, format: "livekit" });
    const sent = (await live.call("POST", `/v1/webhooks/${key.id}/test`)).body;
    const read = async () => (await live.call("GET", `/v1/webhooks/${key.id}/deliveries/${sent.id}`)).body;
    await until(async () => Number((await read()).attemptCount) > 0);
    expect((await read()).lastError).toBe("no HTTP response");
    expect(inside.connections()).toBe(0);
    inside.close();
  },

  async "an endpoint in LiveKit's format is signed with no key of another project or environment"({ server, live }) {
    await server.tenant("victim", "production");
    const keys = JSON.parse(await server.run(["keys", "list", "--json"])) as {
      id: string;
      projectName: string;
      environment: string;
    }[];
    const others = keys.filter((key) => key.projectName === "victim" || key.environment === "DEVELOPMENT");
    expect(others.length).toBeGreaterThan(1);
    for (const { id } of others) {
      const body = { url: "https://attacker.example/", format: "livekit", apiKeyId: id };
      expect((await live.call("POST", "/v1/webhooks", body)).status).toBe(400);
    }
  },

  async "credentials in addresses and paths are not in the log"({ server, tenant }) {
    const secrets = [await tenant.livekit("ann", { roomJoin: true, room: "logged" })];
    const { token } = await tenant.mint(await tenant.room(), "ann");
    secrets.push(token);
    for (const [n, secret] of secrets.entries()) {
      for (const path of [
        `/rtc/validate?access_token=${secret}`,
        `/v1/rtc?token=${secret}&n=${n}`,
        `/w/${secret}`,
        `/${n}/${secret}/x`,
      ]) {
        await fetch(`${server.url}${path}`, {
          method: path.startsWith("/w/") ? "POST" : "GET",
          body: path.startsWith("/w/") ? "" : undefined,
        });
      }
    }
    await fetch(`${server.url}/v1/last-of-them`);
    await until(() => server.log().includes("/v1/last-of-them"));
    for (const secret of secrets) expect(server.log().includes(secret.slice(-20))).toBe(false);
  },

  async "no other user of the machine reads what the server keeps"({ server }) {
    const { dataDir } = server;
    const modes = [...new Bun.Glob("**/*").scanSync({ cwd: dataDir, dot: true, onlyFiles: false })].map(
      (path) =>
        [
          path,
          Bun.spawnSync(["stat", "-c", "%a", `${dataDir}/${path}`])
            .stdout.toString()
            .trim(),
        ] as const,
    );
    expect(modes.length).toBeGreaterThan(3);
    expect(modes.filter(([, mode]) => !/00$/.test(mode))).toEqual([]);
  },
};
