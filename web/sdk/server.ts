/** The server-side helper: typed REST calls with retries, and webhook verification. Bun, Node 20 and Deno. */
import type {
  Attachment,
  ChatMemberRole,
  ChatToken,
  Conversation,
  ConversationMember,
  ConversationType,
  Message,
  MessagePage,
  Metadata,
  Reaction,
} from "../../src/protocol/chat-records.ts";
import type { Participant, Permissions } from "../../src/protocol/room-records.ts";
import type {
  Connection,
  LiveStream,
  NewLiveStream,
  Project,
  Room,
  RtcToken,
  StreamCredentials,
} from "./server/records.ts";
import { createCall, queryOf, type StoaOptions } from "./server/request.ts";

export type * from "./server/records.ts";
export { StoaApiError, type StoaOptions } from "./server/request.ts";
export { verifyWebhook, type WebhookEvent, WebhookVerificationError } from "./server/webhook.ts";

type Page = { limit?: number; cursor?: string };
const seg = encodeURIComponent;

/** `const stoa = new Stoa({ url, apiKey })`, on your backend: the key must never reach a browser. */
export class Stoa {
  readonly rooms;
  readonly rtcTokens;
  readonly conversations;
  readonly messages;
  readonly chatTokens;
  readonly liveStreams;
  readonly connections;
  /** The key's own project. */
  readonly project: () => Promise<Project>;

  constructor(options: StoaOptions) {
    const call = createCall(options);
    this.project = () => call<Project>("GET", "/v1/project");

    this.rooms = {
      create: (input: { name: string; region?: string }) => call<Room>("POST", "/v1/rooms", input),
      list: (page: Page = {}) => call<Room[]>("GET", `/v1/rooms${queryOf(page)}`),
      get: (roomId: string) => call<Room>("GET", `/v1/rooms/${seg(roomId)}`),
      close: (roomId: string) => call<Room>("DELETE", `/v1/rooms/${seg(roomId)}`),
      participants: (roomId: string) => call<Participant[]>("GET", `/v1/rooms/${seg(roomId)}/participants`),
      removeParticipant: (roomId: string, identity: string) =>
        call<void>("DELETE", `/v1/rooms/${seg(roomId)}/participants/${seg(identity)}`),
      updateParticipant: (
        roomId: string,
        identity: string,
        change: { permissions?: Partial<Permissions>; metadata?: string },
      ) => call<Participant>("PATCH", `/v1/rooms/${seg(roomId)}/participants/${seg(identity)}`, change),
      muteTrack: (roomId: string, identity: string, trackId: string) =>
        call<void>("POST", `/v1/rooms/${seg(roomId)}/participants/${seg(identity)}/tracks/${seg(trackId)}/mute`, {
          muted: true,
        }),
      sendData: (roomId: string, data: { payload: string; topic?: string; to?: string[] }) =>
        call<void>("POST", `/v1/rooms/${seg(roomId)}/data`, data),
    };

    this.rtcTokens = {
      mint: (
        roomId: string,
        input: {
          participantIdentity: string;
          permissions?: Partial<Permissions>;
          ttlSeconds?: number;
          metadata?: string;
        },
      ) => call<RtcToken>("POST", `/v1/rooms/${seg(roomId)}/rtc-tokens`, input),
      revoke: (roomId: string, tokenId: string) =>
        call<void>("DELETE", `/v1/rooms/${seg(roomId)}/rtc-tokens/${seg(tokenId)}`),
    };

    const conversation = (room: string) => `/v1/chat/conversations/${seg(room)}`;
    this.conversations = {
      create: (input: {
        name: string;
        type?: ConversationType;
        roomId?: string;
        retentionDays?: number;
        members?: { userId: string; role?: ChatMemberRole; metadata?: Metadata }[];
        metadata?: Metadata;
      }) => call<Conversation>("POST", "/v1/chat/conversations", input),
      list: (page: Page = {}) => call<Conversation[]>("GET", `/v1/chat/conversations${queryOf(page)}`),
      get: (room: string) => call<Conversation>("GET", conversation(room)),
      update: (
        room: string,
        change: Partial<Pick<Conversation, "name" | "status" | "retentionDays" | "metadata" | "slowModeSeconds">>,
      ) => call<Conversation>("PATCH", conversation(room), change),
      members: (room: string) => call<ConversationMember[]>("GET", `${conversation(room)}/members`),
      addMember: (room: string, member: { userId: string; role?: ChatMemberRole; metadata?: Metadata }) =>
        call<ConversationMember>("POST", `${conversation(room)}/members`, member),
      removeMember: (room: string, userId: string) =>
        call<void>("DELETE", `${conversation(room)}/members/${seg(userId)}`),
      updateMember: (
        room: string,
        userId: string,
        change: {
          role?: ChatMemberRole;
          mutedUntil?: string | null;
          status?: "ACTIVE" | "BANNED";
          metadata?: Metadata;
        },
      ) => call<ConversationMember>("PATCH", `${conversation(room)}/members/${seg(userId)}`, change),
    };

    this.messages = {
      send: (
        room: string,
        message: {
          text?: string;
          type?: Message["type"];
          senderId?: string;
          replyTo?: string;
          clientMessageId?: string;
          attachmentId?: string;
          metadata?: Metadata;
        },
      ) => call<Message>("POST", `${conversation(room)}/messages`, message),
      history: (room: string, options: { limit?: number; before?: string; after?: string; senderId?: string } = {}) =>
        call<MessagePage>("GET", `${conversation(room)}/messages${queryOf(options)}`),
      get: (messageId: string) => call<Message>("GET", `/v1/chat/messages/${seg(messageId)}`),
      edit: (messageId: string, change: { text?: string; metadata?: Metadata }) =>
        call<Message>("PATCH", `/v1/chat/messages/${seg(messageId)}`, change),
      delete: (messageId: string) => call<Message>("DELETE", `/v1/chat/messages/${seg(messageId)}`),
      react: (messageId: string, reaction: { emoji: string; userId: string }) =>
        call<Reaction>("POST", `/v1/chat/messages/${seg(messageId)}/reactions`, reaction),
      thread: (messageId: string) => call<Message[]>("GET", `/v1/chat/messages/${seg(messageId)}/thread`),
      downloadUrl: (attachmentId: Attachment["id"]) =>
        call<{ url: string; expiresAt: string }>("GET", `/v1/chat/attachments/${seg(attachmentId)}/download-url`),
    };

    this.chatTokens = {
      mint: (input: { userId: string; conversations?: string[]; scopes?: string[]; ttlSeconds?: number }) =>
        call<ChatToken>("POST", "/v1/chat/tokens", input),
      revoke: (tokenId: string) => call<void>("DELETE", `/v1/chat/tokens/${seg(tokenId)}`),
    };

    const stream = (streamId: string) => `/v1/live-streams/${seg(streamId)}`;
    this.liveStreams = {
      create: (input: NewLiveStream) => call<LiveStream>("POST", "/v1/live-streams", input),
      list: (filter: Page & { visibility?: string } = {}) =>
        call<LiveStream[]>("GET", `/v1/live-streams${queryOf(filter)}`),
      get: (streamId: string) => call<LiveStream>("GET", stream(streamId)),
      update: (streamId: string, change: Partial<Omit<NewLiveStream, "hostIdentity" | "scheduledAt">>) =>
        call<LiveStream>("PATCH", stream(streamId), change),
      start: (streamId: string) => call<LiveStream>("POST", `${stream(streamId)}/start`),
      end: (streamId: string) => call<LiveStream>("POST", `${stream(streamId)}/end`),
      addHost: (streamId: string, host: { identity: string; role?: "HOST" | "CO_HOST" }) =>
        call<StreamCredentials>("POST", `${stream(streamId)}/hosts`, host),
      removeHost: (streamId: string, identity: string) =>
        call<void>("DELETE", `${stream(streamId)}/hosts/${seg(identity)}`),
      mintViewerToken: (streamId: string, identity: string) =>
        call<StreamCredentials>("POST", `${stream(streamId)}/viewer-tokens`, { identity }),
      viewerLeft: (streamId: string, identity: string) => call<void>("POST", `${stream(streamId)}/leave`, { identity }),
      removeViewer: (streamId: string, identity: string) =>
        call<void>("DELETE", `${stream(streamId)}/viewers/${seg(identity)}`),
    };

    this.connections = {
      list: (filter: Page & { state?: string; roomId?: string } = {}) =>
        call<Connection[]>("GET", `/v1/connections${queryOf(filter)}`),
      get: (connectionId: string) => call<Connection>("GET", `/v1/connections/${seg(connectionId)}`),
    };
  }
}
