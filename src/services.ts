import { createAccounts, createUsers } from "./features/accounts/accounts.ts";
import { createAudit } from "./features/audit/audit.ts";
import { createChat } from "./features/chat/chat.ts";
import { chatPersonalColumns, chatPersonalData } from "./features/chat/personal-data.ts";
import { createEgresses } from "./features/egress/egress.ts";
import { createLiveStreams, liveStreamRooms, waitingRooms } from "./features/live-streams/live-streams.ts";
import { liveStreamPersonalColumns, liveStreamPersonalData } from "./features/live-streams/personal-data.ts";
import { createPlayground } from "./features/playground/playground.ts";
import { privacyPersonalColumns } from "./features/privacy/privacy.table.ts";
import { createPrivacy } from "./features/privacy/privacy.ts";
import { createProjects } from "./features/projects/projects.ts";
import { pushPersonalColumns, pushPersonalData } from "./features/push/personal-data.ts";
import { createPush } from "./features/push/push.ts";
import { recordingPersonalColumns, recordingPersonalData } from "./features/recordings/personal-data.ts";
import { createRecordings, recordingsOfCalls } from "./features/recordings/recordings.ts";
import { moderationService } from "./features/rooms/moderation.service.ts";
import { roomPersonalColumns, roomPersonalData } from "./features/rooms/personal-data.ts";
import { createRooms } from "./features/rooms/rooms.ts";
import { sessionPersonalColumns, sessionPersonalData } from "./features/sessions/personal-data.ts";
import { createSessions, type Sessions } from "./features/sessions/sessions.ts";
import { usagePersonalColumns, usagePersonalData } from "./features/usage/personal-data.ts";
import { createUsage } from "./features/usage/usage.ts";
import { webhookPersonalColumns, webhookPersonalData } from "./features/webhooks/personal-data.ts";
import { createWebhooks } from "./features/webhooks/webhooks.ts";
import { createLivekitGateway } from "./gateways/livekit/livekit-gateway.ts";
import { createSignaling } from "./gateways/signaling/signaling.ts";
import { createIdempotency } from "./kernel/http/idempotency.ts";
import type { PersonalColumns } from "./kernel/personal-data.ts";
import type { Runtime } from "./kernel/runtime.ts";
import type { Tenant } from "./kernel/tenant.ts";
import { createFleet } from "./nodes/fleet.ts";
import { createMediaNodes, type MediaNodes } from "./nodes/media-nodes.ts";
import { createNodeKeys } from "./nodes/registration/node-keys.ts";

/** The columns of every feature that contain personal data. */
export const personalColumns: readonly PersonalColumns[] = [
  roomPersonalColumns,
  chatPersonalColumns,
  pushPersonalColumns,
  liveStreamPersonalColumns,
  sessionPersonalColumns,
  recordingPersonalColumns,
  usagePersonalColumns,
  webhookPersonalColumns,
  privacyPersonalColumns,
];

/** Creates every feature once, in this order, and passes to each one the features that it depends on. */
export function createServices(runtime: Runtime, nodes: MediaNodes = createMediaNodes(runtime.timers)) {
  const users = createUsers(runtime);
  const projects = createProjects(runtime, users);
  const { isArchived, originPolicy } = projects.projects;
  const accounts = createAccounts(runtime, { ...users, invitations: projects.invitations });
  const audit = createAudit(runtime);
  const usage = createUsage(runtime);
  const rooms = createRooms(runtime, { mayMint: usage.mayMint, isArchived });
  const nodeKeys = createNodeKeys(runtime);
  const fleet = createFleet(runtime, { urlOf: nodes.urlOf, admit: nodeKeys.admit });
  const isWaitingRoom = waitingRooms(runtime);
  const isLiveStreamRoom = liveStreamRooms(runtime);
  const signaling = createSignaling(runtime, {
    ...rooms,
    fleet,
    nodes,
    originPolicy,
    isArchived,
    isWaitingRoom,
    isStreamRoom: isLiveStreamRoom,
  });
  const { liveRooms } = signaling;
  const moderation = moderationService(runtime, { ...rooms, liveRooms });
  const webhooks = createWebhooks(runtime, projects.apiKeys.livekitKey);
  const egresses = createEgresses(runtime, { ...rooms, nodes, liveRooms });
  const livekitClients = createLivekitGateway(runtime, {
    egresses,
    nodes,
    ...rooms,
    ...projects,
    signaling: signaling.core,
    whip: signaling.whip,
    moderation,
    originPolicy,
    hasLivekitEndpoint: webhooks.hasLivekitEndpoint,
    hasOpenCall: (roomId) => rtcSessions.calls.isOpenIn(roomId),
  });
  const openRoomId = (tenant: Tenant, roomId: string) => rooms.rooms.findActive({ ...tenant, roomId }).id;
  const hasCall = (roomId: string): boolean => rtcSessions.calls.log.liveIn(roomId) !== undefined;
  const chat = createChat(runtime, { isArchived, originPolicy, openRoomId, hasCall, isLiveStreamRoom });
  const liveStreams = createLiveStreams(runtime, { ...rooms, ...chat, liveRooms });
  const push = createPush(runtime, chat);
  const rtcSessions: Sessions = createSessions(runtime, {
    ...webhooks,
    mailer: users.mailer,
    findNode: nodes.find,
    cpuOf: fleet.cpuOf,
    minutesIn: usage.minutesIn,
    isEncrypted: rooms.rooms.isEncrypted,
    recordingsOf: recordingsOfCalls(runtime),
    roomMessages: chat.chat.roomMessages,
  });
  const recordings = createRecordings(runtime, {
    ...rooms,
    ...chat,
    liveStreams,
    nodes,
    liveRooms,
    calls: rtcSessions.calls,
  });
  const privacy = createPrivacy(runtime, {
    features: [
      roomPersonalData(runtime, liveRooms),
      chatPersonalData(runtime, chat.chat, chat.attachments),
      pushPersonalData(runtime),
      liveStreamPersonalData(runtime),
      sessionPersonalData(runtime, rtcSessions.recorder),
      recordingPersonalData(runtime, recordings),
      usagePersonalData(runtime),
      // Webhooks come last, because other features publish events while they erase data.
      webhookPersonalData(runtime),
    ],
    compactSearch: chat.search.compact,
    quota: chat.attachments.quota,
  });
  const playground = createPlayground(runtime, { ...rooms, ...chat, liveStreams, liveRooms });
  const idempotency = createIdempotency(runtime.db, runtime.writer, runtime.now);
  return {
    ...users,
    ...projects,
    ...accounts,
    audit,
    usage,
    ...rooms,
    fleet,
    nodeKeys,
    signaling,
    liveRooms,
    moderation,
    egresses,
    livekitClients,
    emptyRooms: signaling.emptyRooms,
    drainingNodes: signaling.drainingNodes,
    ...chat,
    liveStreams,
    push,
    ...webhooks,
    recordings,
    rtcSessions,
    privacy,
    playground,
    idempotency,
  };
}

export type Services = ReturnType<typeof createServices>;
