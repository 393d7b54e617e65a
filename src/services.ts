import { accountService } from "./accounts/account.service.ts";
import { createLetters } from "./accounts/mail/mail-texts.ts";
import { createMailer } from "./accounts/mail/mailer.ts";
import { oauthService } from "./accounts/oauth/oauth.service.ts";
import { oneTimeTokenService } from "./accounts/one-time-token.service.ts";
import { createPasswords } from "./accounts/passwords.ts";
import { recoveryService } from "./accounts/recovery.service.ts";
import { sessionService } from "./accounts/sessions/session.service.ts";
import { userService } from "./accounts/user.service.ts";
import { auditService } from "./audit/audit.service.ts";
import { backupSchedule } from "./backup/schedule.ts";
import { attachmentParts } from "./chat/attachments/attachments.ts";
import { chatService } from "./chat/chat.service.ts";
import { retentionService } from "./chat/retention.service.ts";
import { searchService } from "./chat/search.service.ts";
import { retentionStore } from "./chat/store/retention.store.ts";
import { searchStore } from "./chat/store/search.store.ts";
import { fleetService } from "./fleet/fleet.service.ts";
import { createIdempotency } from "./kernel/http/idempotency.ts";
import { createLiveStreams, waitingRooms } from "./live-streams/live-streams.ts";
import { createMediaNodes, type MediaNodes } from "./media/nodes.ts";
import {
  createDiagnostics,
  databaseProbe,
  mailProbe,
  mediaProbe,
  storageProbe,
  webhookProbe,
} from "./observability/diagnostics.ts";
import { observabilityReads } from "./observability/observability.reads.ts";
import { observabilityService } from "./observability/observability.service.ts";
import { measure } from "./observability/prometheus.ts";
import { playgroundService } from "./playground/playground.service.ts";
import { apiKeyService } from "./projects/api-key.service.ts";
import { invitationService } from "./projects/invitation.service.ts";
import { memberService } from "./projects/member.service.ts";
import { projectService } from "./projects/project.service.ts";
import { roomService } from "./rooms/room.service.ts";
import { rtcTokenService } from "./rooms/rtc-token.service.ts";
import type { Runtime } from "./runtime.ts";
import { createSignaling } from "./signaling/signaling.ts";
import { usageService } from "./usage/usage.service.ts";
import { webhookBacklog, webhookQueue } from "./webhooks/backlog.ts";
import { createWebhooks } from "./webhooks/webhooks.ts";

/** Every feature's rules, wired together once; what a feature needs of another is handed to it here. */
export function createServices(runtime: Runtime, nodes: MediaNodes = createMediaNodes(runtime.timers)) {
  const users = userService(runtime);
  const sessions = sessionService(runtime);
  const oneTimeTokens = oneTimeTokenService(runtime);
  const mailer = createMailer(runtime.config, runtime.log);
  const letters = createLetters(runtime.config);
  const members = memberService(runtime);
  const projects = projectService(runtime, members);
  const invitations = invitationService(runtime, { users, members, projects, mailer, letters });
  const signUp = { users, sessions, oneTimeTokens, passwords: createPasswords(), invitations, mailer, letters };
  const accounts = accountService(runtime, signUp);
  const recovery = recoveryService(runtime, signUp);
  const oauth = oauthService(runtime, { users, sessions, accounts });
  const apiKeys = apiKeyService(runtime);
  const audit = auditService(runtime);
  const rooms = roomService(runtime);
  const usage = usageService(runtime);
  const rtcTokens = rtcTokenService(runtime, { rooms, mayMint: usage.mayMint, isArchived: projects.isArchived });
  const fleet = fleetService(runtime, nodes.livesAt);
  const signaling = createSignaling(runtime, {
    rooms,
    rtcTokens,
    fleet,
    nodes,
    originPolicy: projects.originPolicy,
    isArchived: projects.isArchived,
    isWaitingRoom: waitingRooms(runtime),
  });
  const { liveRooms } = signaling;
  const attachments = attachmentParts(runtime, projects.originPolicy);
  const search = searchService(runtime, searchStore(runtime.db));
  const retention = retentionService(runtime, { store: retentionStore(runtime.db), search });
  const chat = chatService(runtime, {
    isArchived: projects.isArchived,
    requireOpenRoom: (tenant, roomId) => void rooms.findActive({ ...tenant, roomId }),
    claimAttachment: attachments.claim,
  });
  const observability = observabilityService(runtime);
  const mediaLoad = async () => localLoad(runtime.config.SFU_NODE_NAME, nodes);
  measure(runtime, { mediaLoad, webhookQueue: webhookQueue(runtime.db) });
  const diagnostics = createDiagnostics(runtime, {
    database: databaseProbe(runtime),
    media: mediaProbe(mediaLoad),
    storage: storageProbe(runtime),
    webhooks: webhookProbe(webhookBacklog(runtime.db), runtime.now),
    mail: mailProbe(mailer),
  });
  const liveStreams = createLiveStreams(runtime, { rooms, rtcTokens, chat, liveRooms });
  return {
    users,
    sessions,
    accounts,
    recovery,
    oauth,
    mailer,
    members,
    invitations,
    projects,
    apiKeys,
    audit,
    rooms,
    rtcTokens,
    fleet,
    signaling,
    liveRooms,
    attachments,
    search,
    retention,
    chat,
    liveStreams,
    playground: playgroundService(runtime, { rooms, rtcTokens, chat, liveStreams, liveRooms }),
    usage,
    observability: { ...observability, reads: observabilityReads(observability, diagnostics) },
    idempotency: createIdempotency(runtime.db, runtime.writer, runtime.now),
    backups: backupSchedule(runtime),
    ...createWebhooks(runtime),
  };
}

function localLoad(serverName: string, nodes: MediaNodes) {
  const node = nodes.find(serverName);
  if (!node) throw new Error("the media node of this server is not running");
  return node.load();
}

export type Services = ReturnType<typeof createServices>;
