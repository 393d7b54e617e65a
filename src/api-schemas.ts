/** The modules of the API's records and bodies: each export is a component of the reference by its own name. */
import * as account from "./accounts/account.schema.ts";
import * as audit from "./audit/audit.schema.ts";
import * as call from "./calls/call.schema.ts";
import * as attachment from "./chat/attachments/attachment.schema.ts";
import * as ring from "./chat/calls/ring.schema.ts";
import * as moderation from "./chat/moderation/moderation.schema.ts";
import * as chatDashboard from "./chat/rest/chat.dashboard-schema.ts";
import * as chat from "./chat/rest/chat.schema.ts";
import * as cluster from "./cluster/cluster.schema.ts";
import * as server from "./fleet/server.schema.ts";
import * as health from "./kernel/http/health.schema.ts";
import * as liveStream from "./live-streams/live-stream.schema.ts";
import * as observability from "./observability/observability.schema.ts";
import * as person from "./people/person.schema.ts";
import * as apiKey from "./projects/rest/api-key.schema.ts";
import * as invitation from "./projects/rest/invitation.schema.ts";
import * as member from "./projects/rest/member.schema.ts";
import * as project from "./projects/rest/project.schema.ts";
import * as chatEvents from "./protocol/chat-events.ts";
import * as chatRecords from "./protocol/chat-records.ts";
import * as flight from "./protocol/media/flight.ts";
import * as recordingRecords from "./protocol/recordings.ts";
import * as roomRecords from "./protocol/room-records.ts";
import * as push from "./push/push.schema.ts";
import * as recording from "./recordings/recording.schema.ts";
import * as room from "./rooms/room.schema.ts";
import * as rtcToken from "./rooms/rtc-token.schema.ts";
import * as usage from "./usage/usage.schema.ts";
import * as webhook from "./webhooks/rest/webhook.schema.ts";

export const API_SCHEMAS: Record<string, unknown> = {
  ...account,
  ...audit,
  ...call,
  ...attachment,
  ...ring,
  ...moderation,
  ...chatDashboard,
  ...chat,
  ...cluster,
  ...server,
  ...health,
  ...liveStream,
  ...observability,
  ...flight,
  ...person,
  ...apiKey,
  ...invitation,
  ...member,
  ...project,
  ...chatEvents,
  ...chatRecords,
  ...roomRecords,
  ...push,
  ...recording,
  ...recordingRecords,
  ...room,
  ...rtcToken,
  ...usage,
  ...webhook,
};
