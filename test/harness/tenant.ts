import type { CredentialKind } from "../../src/kernel/http/guards.ts";
import type { Environment } from "../../src/protocol/enums.ts";
import type { Operation } from "./operations.ts";
import { type RtcServer, settled } from "./rtc.ts";

/** A project with at least one record of every kind. */
export type Tenant = {
  /** Contained in everything that the tenant wrote: names, texts, metadata, addresses. */
  marker: string;
  projectId: string;
  /** One valid credential of each kind; all but the node's are this tenant's own. */
  credentials: Record<CredentialKind, string>;
  /** The value of a parameter in a route's path. */
  idFor(operation: Operation, name: string): string;
  /** The values by name, for bodies and queries. */
  ids: Record<string, string>;
};

type TenantOptions = { environment?: Environment; operator?: boolean; marker?: string };

let tenants = 0;

/** A browser's push subscription; the keys are those of RFC 8291's example. */
export const BROWSER = {
  endpoint: "https://push.example.com/send/abc",
  keys: {
    p256dh: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
    auth: "BTBZMqHH6r4Tts7J_aSIgg",
  },
};

/** Creates a project with signed-in members and at least one record of every kind that has an id. */
export async function tenantOf(server: RtcServer, options: TenantOptions = {}): Promise<Tenant> {
  const { environment = "DEVELOPMENT", operator = false } = options;
  const marker = options.marker ?? `tenant${++tenants}x${crypto.randomUUID().slice(0, 8)}`;
  const { projectId, key } = await server.project({ environment, name: marker });
  const owner = await server.session({ projectId, role: "OWNER", operator });
  const member = await server.session({ projectId, role: "DEVELOPER" });

  const made = async (path: string, body: object, credential = key) => {
    const { status, body: answer } = await server.call("POST", path, { key: credential, body });
    if (status > 299) throw new Error(`${path}: ${status} ${JSON.stringify(answer)}`);
    return answer as Record<string, string>;
  };
  const inProject = (path: string, body: object) =>
    made(`/v1/projects/${projectId}${path}?environment=${environment}`, body, owner.token);

  const room = await made("/v1/rooms", { name: `${marker}-room` });
  const spare = await made("/v1/rooms", { name: `${marker}-spare` });
  const rtc = await made(`/v1/rooms/${room.id}/rtc-tokens`, {
    participantIdentity: marker,
    permissions: { publish: true, publishData: true },
    metadata: marker,
  });
  const { node } = server;
  const client = server.connect(rtc.token ?? "");
  await client.join({ connectionId: `${marker}-connection` });
  const peer = node.peers().find(({ identity }) => identity === marker);
  const publish = [{ clientTrackId: "camera", mid: "0", kind: "video", source: "camera" } as const];
  await node.negotiate({ roomId: room.id ?? "", participantId: peer?.participantId ?? "", sdp: "v=0", publish });
  node.connect(peer?.participantId ?? "");
  await settled();
  const trackId = [...(peer?.published.values() ?? [])][0]?.track.id ?? "";

  const members = [
    { userId: marker, role: "ADMIN" },
    { userId: `${marker}-friend`, metadata: { marker } },
  ];
  const conversation = await made("/v1/chat/conversations", { name: `${marker}-chat`, members, metadata: { marker } });
  const at = `/v1/chat/conversations/${conversation.id}`;
  const attachment = await made(`${at}/attachments`, {
    filename: `${marker}.txt`,
    mimeType: "text/plain",
    size: 5,
    uploaderId: marker,
  });
  const upload = { method: "PUT", body: "bytes", headers: { "content-type": "text/plain" } };
  await server.app.handle(new Request(String(attachment.uploadUrl), upload));
  await made(`/v1/chat/attachments/${attachment.id}/complete`, {});
  const message = await made(`${at}/messages`, { text: `${marker} says`, senderId: marker, metadata: { marker } });
  await made(`/v1/chat/messages/${message.id}/reactions`, { emoji: "👍", userId: marker });
  const beside = await made("/v1/chat/conversations", { name: `${marker}-beside`, members, roomId: room.id });
  const ring = await made(`/v1/chat/conversations/${beside.id}/rings`, {
    userId: `${marker}-friend`,
    timeoutSeconds: 300,
  });
  const report = await made(`/v1/chat/messages/${message.id}/reports`, { userId: `${marker}-friend`, reason: "spam" });
  const subscription = await made("/v1/chat/push/subscriptions", { ...BROWSER, userId: `${marker}-friend` });
  const chat = await made("/v1/chat/tokens", { userId: marker });
  const disposable = await made("/v1/chat/tokens", { userId: `${marker}-friend` });

  const stream = await made("/v1/live-streams", { title: marker, hostIdentity: marker, metadata: { marker } });
  await made(`/v1/live-streams/${stream.id}/hosts`, { identity: `${marker}-host`, role: "CO_HOST" });
  await made(`/v1/live-streams/${stream.id}/viewer-tokens`, { identity: `${marker}-viewer` });
  const live = await made("/v1/live-streams", { title: marker, hostIdentity: marker });
  await made(`/v1/live-streams/${live.id}/start`, {});

  await made(
    "/v1/telemetry/events",
    { connectionId: `${marker}-connection`, type: "error", data: { message: marker } },
    rtc.token,
  );
  await server.services.rtcSessions.recorder.flush();
  const errors = await server.call("GET", "/v1/errors", { key });
  const [error] = JSON.parse(errors.text) as { id: string }[];

  const dumpId = await flightDump(server, `${marker}-connection`);
  const recording = await made(`/v1/rooms/${spare.id}/recordings`, { name: marker });
  const fileId = await recordedFile(server, recording.id ?? "", marker);

  const calls = await server.call("GET", `/v1/calls?roomId=${room.id}`, { key });
  const [call] = JSON.parse(calls.text) as { id: string }[];

  const personExport = await made(`/v1/people/${marker}/exports`, {});
  await server.services.privacy.exports.settled();

  const webhook = await inProject("/webhooks", { url: "http://127.0.0.1:9/hook", environment, description: marker });
  const delivery = await inProject(`/webhooks/${webhook.id}/test`, {});
  const apiKey = await inProject("/api-keys", { name: marker, environment });
  const invitation = await inProject("/members", { email: `${marker}@example.com`, role: "VIEWER" });
  const sessions = await server.call("GET", "/v1/auth/sessions", { key: owner.token });
  const [session] = JSON.parse(sessions.text) as { id: string }[];

  const ids: Record<string, string> = {
    projectId,
    id: room.id ?? "",
    roomId: room.id ?? "",
    spareRoomId: spare.id ?? "",
    tokenId: rtc.tokenId ?? "",
    chatTokenId: disposable.tokenId ?? "",
    identity: marker,
    hostIdentity: `${marker}-host`,
    trackId,
    room: conversation.id ?? "",
    conversationId: conversation.id ?? "",
    messageId: message.id ?? "",
    emoji: "👍",
    attachmentId: attachment.id ?? "",
    streamId: stream.id ?? "",
    liveStreamId: live.id ?? "",
    viewerIdentity: `${marker}-viewer`,
    connectionId: `${marker}-connection`,
    errorId: error?.id ?? "",
    dumpId,
    callId: call?.id ?? "",
    besideId: beside.id ?? "",
    subscriptionId: subscription.id ?? "",
    reportId: report.id ?? "",
    blockedUserId: `${marker}-friend`,
    ringId: ring.id ?? "",
    recordingId: recording.id ?? "",
    fileId,
    exportId: personExport.id ?? "",
    exportedUserId: marker,
    webhookId: webhook.id ?? "",
    deliveryId: delivery.id ?? "",
    keyId: apiKey.id ?? "",
    invitationId: invitation.id ?? "",
    sessionId: session?.id ?? "",
    memberId: member.userId,
    userId: `${marker}-friend`,
    name: "n1",
    provider: "nobody",
    token: "nothing",
    passkeyId: "nothing",
  };
  return {
    marker,
    projectId,
    ids,
    credentials: {
      apiKey: key,
      session: owner.token,
      chatToken: chat.token ?? "",
      rtcToken: rtc.token ?? "",
      sfuSecret: "test-sfu-secret",
    },
    idFor: ({ path }, name) => ids[MEANT_BY[`${scopeOf(path)} ${name}`] ?? name] ?? "",
  };
}

/** Routes in which a parameter has another meaning than elsewhere. */
const MEANT_BY: Record<string, string> = {
  "/v1/projects/{projectId}/members userId": "memberId",
  "/v1/people/{userId}/exports userId": "exportedUserId",
  "/v1/chat/tokens tokenId": "chatTokenId",
  "/v1/live-streams/{streamId}/hosts identity": "hostIdentity",
  "/v1/live-streams/{streamId}/viewers identity": "viewerIdentity",
  "/v1/live-streams/{streamId}/end streamId": "liveStreamId",
  "/v1/projects/{projectId}/live-streams/{streamId}/viewers identity": "viewerIdentity",
  "/v1/projects/{projectId}/live-streams/{streamId}/end streamId": "liveStreamId",
  "/v1/projects/{projectId}/live-streams/{streamId}/hosts identity": "hostIdentity",
};

/** The path up to its last parameter. */
const scopeOf = (path: string) => path.replace(/\/\{\w+\}$/, "");

/** Inserts a dump of a connection, because the fake media server makes none. */
async function flightDump({ runtime }: RtcServer, connectionId: string): Promise<string> {
  const id = crypto.randomUUID();
  const dump = { version: 1, sinceMs: 0, lastedMs: 1, streams: [], received: [], sent: [], rtcp: [], states: [] };
  await runtime.write(() => {
    runtime.db.$client.run(
      "INSERT INTO rtc_flights SELECT ?, id, 'asked', 1, ? FROM rtc_connections WHERE connection_id = ?",
      [...[id, Bun.gzipSync(Buffer.from(JSON.stringify(dump))), connectionId]],
    );
  });
  return id;
}

/** Inserts a file of a recording, because no media is sent here. */
export async function recordedFile({ runtime }: RtcServer, recordingId: string, identity: string): Promise<string> {
  const id = crypto.randomUUID();
  await runtime.write(() => {
    runtime.db.$client.run(
      `INSERT INTO recording_files SELECT id, ?, ?, ?, 'trk_1', 'audio', 'microphone', 'opus', 'audio/webm', 0, 1000, 5, NULL, NULL, 'disk', NULL
       FROM recordings WHERE public_id = ?`,
      [id, `${id}.webm`, identity, recordingId],
    );
  });
  return id;
}
