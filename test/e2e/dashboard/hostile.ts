/** Stores texts that would run if a page treated them as markup, in every field that users can write. */
import type { Access } from "../../../src/features/chat/access.ts";
import { participant } from "./seed.ts";
import type { Stage } from "./stage.ts";

/** This is short enough for a name. */
export const HOSTILE = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>"'&`;
const LONG = `${HOSTILE}<svg onload=window.hacked=1><a href="javascript:window.hacked=1">go</a></textarea></title>`;
/** This is short enough for the name of a server, a reaction or a region. */
const BRIEF = `<img src=x onerror="window.hacked=1">`;

export type Planted = Awaited<ReturnType<typeof plantHostileTexts>>;

export async function plantHostileTexts(stage: Stage) {
  const { server } = stage;
  const { runtime, services, projectId } = server;
  const { $client: client } = runtime.db;
  const tenant = { projectId, environment: "DEVELOPMENT" as const };
  const author = {
    actor: null,
    request: { id: "req_0", ip: "192.0.2.1", userAgent: HOSTILE },
    environment: "DEVELOPMENT" as const,
  };
  const planted = await runtime.write((unit) => {
    const owner = services.users.findByEmail("owner@example.com");
    if (!owner) throw new Error("the harness made no owner");
    services.users.update(unit, owner.id, { name: HOSTILE });
    services.sessions.start(unit, owner.id, { ip: "192.0.2.1", userAgent: HOSTILE });
    services.projects.update(unit, projectId, { name: HOSTILE, description: LONG }, author);
    const grace = { email: "grace@example.com", name: HOSTILE, passwordHash: null, emailVerified: true };
    services.members.add(unit, projectId, services.users.create(unit, grace).id, "VIEWER", author);
    services.apiKeys.create(unit, projectId, { name: HOSTILE, environment: "DEVELOPMENT" }, author);
    const webhook = services.webhooks.create(
      unit,
      projectId,
      { url: "http://127.0.0.1:9/hook?<img/src=x>", environment: "DEVELOPMENT", description: LONG },
      author,
    );
    const stream = services.liveStreams.streams.create(unit, tenant, {
      title: HOSTILE,
      hostIdentity: "grace",
      description: LONG,
      thumbnailUrl: "javascript:window.hacked=1",
      category: BRIEF,
      language: "<b>en</b>",
      tags: [BRIEF, "</script>"],
      metadata: { note: LONG },
    });
    const conversation = services.chat.conversations.create(unit, tenant, {
      name: "support",
      metadata: { note: LONG },
      members: [{ userId: "ada", role: "ADMIN", metadata: { note: LONG } }, { userId: "grace" }],
    });
    const access: Access = { kind: "server", conversation, userId: null, member: null };
    const { message } = services.chat.messages.send(unit, access, {
      text: LONG,
      senderId: "ada",
      metadata: { note: LONG },
    });
    return {
      webhookId: webhook.id,
      streamId: stream.publicId,
      conversationId: conversation.publicId,
      messageId: message.id,
    };
  });

  const { webhookId, conversationId, messageId } = planted;
  const reacted = await server.call("POST", `/v1/chat/messages/${messageId}/reactions`, {
    userId: "ada",
    emoji: BRIEF,
  });
  const attachment = { filename: `${HOSTILE}.png`, mimeType: "image/png", size: 3, uploaderId: "ada" };
  const attached = await server.call("POST", `/v1/chat/conversations/${conversationId}/attachments`, attachment);
  if (reacted.status >= 300 || attached.status >= 300) throw new Error(reacted.text + attached.text);
  const roomId = String((await server.call("POST", "/v1/rooms", { name: "standup", region: BRIEF })).body.id);
  const page = await participant(stage, roomId, "ada", { metadata: LONG, userAgent: HOSTILE });
  const { body: token } = await server.call("POST", "/v1/chat/tokens", { userId: "ada" });
  await page.evaluate(
    (address) =>
      new Promise((opened, failed) => {
        const socket = new WebSocket(address);
        socket.onmessage = opened;
        socket.onclose = ({ code }) => failed(new Error(`the chat closed with ${code}`));
      }),
    `${server.url.replace("http", "ws")}/v1/chat/ws?token=${token.token}`,
  );
  // These values come from networks, browsers and other servers, so no route accepts them directly.
  const deliveryId = await deliveryOf(stage, webhookId);
  return runtime.write((unit) => {
    const node = { region: BRIEF, publicHost: BRIEF, internalUrl: "https://10.0.3.2:7000", version: BRIEF };
    services.fleet.register(unit, { name: "media-2", ...node });
    services.fleet.drain(unit, "media-2");
    const at = runtime.now();
    const attempts = [{ at: new Date(at).toISOString(), statusCode: null, durationMs: 1, error: LONG }];
    client.run("UPDATE webhook_deliveries SET last_error = ?, attempts = ?", [LONG, JSON.stringify(attempts)]);
    const id = runtime.ids.uuid();
    client.run(
      `INSERT INTO rtc_connections (id, project_id, environment, connection_id, room_name, participant_identity, state,
         server_name, sdk, user_agent, ip_address, started_at, last_seen_at, disconnected_at, disconnect_reason)
       VALUES (?, ?, 'DEVELOPMENT', ?, ?, ?, 'FAILED', ?, ?, ?, ?, ?, ?, ?, ?)`,
      [id, projectId, LONG, HOSTILE, HOSTILE, BRIEF, BRIEF.replaceAll(" ", "/"), HOSTILE, BRIEF, at, at, at, BRIEF],
    );
    const happened = "INSERT INTO rtc_connection_events (connection, type, source, at, data) VALUES (?, ?, ?, ?, ?)";
    client.run(happened, [id, "error", "client", at, JSON.stringify({ [HOSTILE]: LONG, deep: { [LONG]: [LONG] } })]);
    client.run("INSERT INTO rtc_errors VALUES (?, ?, 'DEVELOPMENT', 'CLIENT_ERROR', ?, ?, ?, ?, ?)", [
      runtime.ids.uuid(),
      projectId,
      BRIEF,
      LONG,
      id,
      roomId,
      at,
    ]);
    client.run(`INSERT INTO usage_sessions VALUES (?, ?, 'DEVELOPMENT', ?, ?, ?, ?, ?, ?)`, [
      runtime.ids.uuid(),
      projectId,
      roomId,
      HOSTILE,
      HOSTILE,
      at - 60_000,
      at,
      at,
    ]);
    return { ...planted, roomId, deliveryId, connectionId: id };
  });
}

async function deliveryOf({ server }: Stage, webhookId: string): Promise<string> {
  for (;;) {
    const [first] = server.services.deliveries.list(webhookId, undefined, "~", 1);
    if (first && first.attemptCount > 0) return first.id;
    await Bun.sleep(50);
  }
}
