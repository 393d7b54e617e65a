/** Schemas of the `data` of every webhook event, for the outbox, the reference and the guide. */
import { type Static, type TObject, Type } from "@sinclair/typebox";
import { CHAT_MEMBER_ROLES, CONVERSATION_TYPES, Message, REPORT_REASONS, Ring } from "./chat-records.ts";
import { LIVE_STREAM_VISIBILITIES } from "./enums.ts";
import { literals } from "./literals.ts";
import { Recording } from "./recordings.ts";
import { Profile } from "./room-records.ts";
import { LeaveReason } from "./signaling.ts";
import type { WebhookEventType } from "./webhook-events.ts";

const Text = Type.String();
const NullableText = Type.Union([Type.String(), Type.Null()]);
const seq = Type.Integer({ description: "Position in the conversation, without a gap" });

const StreamPresence = { streamId: Text, identity: Text, at: Text };
const Reacted = { messageId: Text, conversationId: Text, userId: Text, emoji: Text, at: Text, seq };
const Membership = { conversationId: Text, userId: Text, role: literals(CHAT_MEMBER_ROLES), at: Text, seq };
const InCall = { callId: Text, roomId: Text, identity: Text, connectionId: Text, at: Text };

export const WebhookPayloads = {
  "live_stream.created": Type.Object({
    streamId: Text,
    title: Text,
    visibility: literals(LIVE_STREAM_VISIBILITIES),
    hostIdentity: Text,
    createdAt: Text,
  }),
  "live_stream.started": Type.Object({ streamId: Text, startedAt: Text }),
  "live_stream.ended": Type.Object({
    streamId: Text,
    endedAt: Text,
    durationMs: Type.Union([Type.Integer(), Type.Null()]),
  }),
  "live_stream.host_joined": Type.Object({ ...StreamPresence, role: literals(["HOST", "CO_HOST"]) }),
  "live_stream.host_left": Type.Object(StreamPresence),
  "live_stream.viewer_joined": Type.Object(StreamPresence),
  "live_stream.viewer_left": Type.Object(StreamPresence),
  "message.created": Type.Object({ message: Message, seq }),
  "message.updated": Type.Object({ message: Message, seq }),
  "message.deleted": Type.Object({
    messageId: Text,
    conversationId: Text,
    senderId: NullableText,
    deletedAt: Text,
    deletedBy: NullableText,
    seq,
  }),
  "reaction.added": Type.Object(Reacted),
  "reaction.removed": Type.Object(Reacted),
  "room.created": Type.Object({
    conversationId: Text,
    name: Text,
    type: literals(CONVERSATION_TYPES),
    roomId: NullableText,
    createdAt: Text,
    seq,
  }),
  "participant.joined": Type.Object(Membership),
  "participant.left": Type.Object(Membership),
  "message.reported": Type.Object({
    reportId: Text,
    messageId: Text,
    conversationId: Text,
    senderId: NullableText,
    reporterId: NullableText,
    reason: literals(REPORT_REASONS),
    at: Text,
  }),
  "call.started": Type.Object({ callId: Text, roomId: Text, roomName: Text, startedAt: Text }),
  "call.participant_joined": Type.Object({ ...InCall, ...Profile.properties, metadata: NullableText }),
  "call.participant_left": Type.Object({ ...InCall, reason: LeaveReason, durationMs: Type.Integer() }),
  "call.ended": Type.Object({
    callId: Text,
    roomId: Text,
    roomName: Text,
    startedAt: Text,
    endedAt: Text,
    durationMs: Type.Integer(),
    participantCount: Type.Integer({ description: "Distinct identities" }),
    peakParticipants: Type.Integer({ description: "The most participants at the same time" }),
  }),
  "participant.moved": Type.Object({
    roomId: Text,
    roomName: Text,
    toRoomId: Text,
    toRoomName: Text,
    identity: Text,
    at: Text,
  }),
  "lobby.knocked": Type.Object({ roomId: Text, roomName: Text, identity: Text, name: NullableText, at: Text }),
  "call.ringing": Type.Object({ ring: Ring }),
  "call.ring_ended": Type.Object({ ring: Ring }),
  "recording.started": Type.Object({ recording: Recording }),
  "recording.ready": Type.Object({ recording: Recording }),
  "recording.failed": Type.Object({ recording: Recording }),
} as const satisfies Record<WebhookEventType, TObject>;

/** When each event is sent; the reference and the guide show these texts. */
export const WEBHOOK_MEANINGS: Record<WebhookEventType, string> = {
  "live_stream.created": "A live stream was created; it is not live yet",
  "live_stream.started": "A live stream went live",
  "live_stream.ended": "A live stream ended",
  "live_stream.host_joined": "Credentials were minted for a host or co-host",
  "live_stream.host_left": "A co-host was removed",
  "live_stream.viewer_joined": "Credentials were minted for a viewer; once per viewer until they leave",
  "live_stream.viewer_left": "Your backend reported that a viewer left",
  "message.created": "A message was sent",
  "message.updated": "A message was edited",
  "message.deleted": "A message was deleted",
  "reaction.added": "A user reacted to a message",
  "reaction.removed": "A user removed a reaction",
  "room.created": "A conversation was created, attached to a room or not",
  "participant.joined": "A user became a member of a conversation",
  "participant.left": "A user is no longer a member of a conversation",
  "message.reported": "A user reported a message to the moderators",
  "call.started": "The first participant joined a room",
  "call.participant_joined": "A participant joined a call",
  "call.participant_left": "A participant left a call; also when a dropped connection was not resumed in time",
  "call.ended": "The last participant left; exactly once for every call.started",
  "participant.moved": "A participant was moved to another room; joining and leaving have their own events",
  "lobby.knocked": "A participant waits in the lobby of a room until a host or your backend admits them",
  "call.ringing": "A user rings members of a conversation to join its room",
  "call.ring_ended": "A ring is over: answered, declined, missed or cancelled",
  "recording.started": "A room is being recorded",
  "recording.ready": "A recording has ended, and its files are complete",
  "recording.failed": "A recording ended because it could not be written, or because the server stopped",
};

export type WebhookEventData = { [T in WebhookEventType]: Static<(typeof WebhookPayloads)[T]> };
