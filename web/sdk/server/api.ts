// biome-ignore-all format: printed by bin/api-client.ts, as it comes
// Printed from the API by bin/api-client.ts; a change made here is lost.
import type { CallOptions } from "./request.ts";
import { Routes } from "./routes.ts";

export type Permissions = { join: boolean; subscribe: boolean; publish: boolean; publishAudio: boolean; publishVideo: boolean; publishData: boolean; updateMetadata: boolean; };
export type Project = { id: string; name: string; description: string | null; status: "ACTIVE" | "ARCHIVED"; allowedOrigins: Array<string>; allowLocalhostOrigins: boolean; /** ISO 8601, UTC, milliseconds */ createdAt: string; /** ISO 8601, UTC, milliseconds */ updatedAt: string; role?: "OWNER" | "ADMIN" | "DEVELOPER" | "VIEWER"; environment?: "DEVELOPMENT" | "PRODUCTION"; };
export type Room = { id: string; projectId: string; environment: "DEVELOPMENT" | "PRODUCTION"; name: string; region: string | null; status: "ACTIVE" | "CLOSED"; /** Every call in it is recorded */ record: boolean; /** It is being recorded now */ recording: boolean; /** null: the room's media node does not answer */ participantCount: number | null; /** null: nobody is in the room, so no node holds it */ serverName: string | null; /** ISO 8601, UTC, milliseconds */ createdAt: string; /** ISO 8601, UTC, milliseconds */ updatedAt: string; /** ISO 8601, UTC, milliseconds */ closedAt: string | null; };
export type Participant = { identity: string; name: string | null; attributes: Record<string, unknown>; kind: "standard" | "agent" | "ingress"; connectionId: string; state: "CONNECTING" | "CONNECTED" | "RECONNECTING" | "DISCONNECTED" | "FAILED"; permissions: Permissions; metadata: string | null; joinedAt: string; tracks: Array<{ id: string; kind: "audio" | "video"; source: "camera" | "microphone" | "screenShare" | "screenShareAudio" | "other"; name: string | null; muted: boolean; simulcast: boolean; codec: string | null; }>; quality: "excellent" | "good" | "poor" | "lost" | null; };
export type RtcToken = { token: string; tokenId: string; /** Address of the signaling socket */ endpoint: string; iceServers: Array<{ urls: Array<string>; username?: string; credential?: string; }>; roomId: string; roomName: string; participantIdentity: string; permissions: Permissions; metadata: string | null; name: string | null; attributes: Record<string, unknown>; kind: "standard" | "agent" | "ingress"; /** ISO 8601, UTC, milliseconds */ expiresAt: string; /** ISO 8601, UTC, milliseconds */ createdAt: string; };
export type ChatToken = { token: string; tokenId: string; userId: string; scopes: Array<string>; conversations: Array<string> | null; endpoint: string; expiresAt: string; };
export type Attachment = { id: string; conversationId: string; filename: string; mimeType: string; size: number; sha256: string | null; status: "PENDING" | "UPLOADED" | "EXPIRED"; uploaderId: string | null; metadata: Record<string, unknown> | null; createdAt: string; };
export type Conversation = { id: string; uuid: string; name: string; type: "CHANNEL" | "DIRECT" | "ROOM"; status: "ACTIVE" | "ARCHIVED"; roomId: string | null; retentionDays: number | null; metadata: Record<string, unknown> | null; slowModeSeconds: number; memberCount: number; lastSeq: number; lastMessageAt: string | null; createdAt: string; updatedAt: string; unreadCount?: number; mentionCount?: number; };
export type ConversationMember = { userId: string; role: "MEMBER" | "MODERATOR" | "ADMIN"; status: "ACTIVE" | "LEFT" | "BANNED"; mutedUntil: string | null; metadata: Record<string, unknown> | null; joinedAt: string; leftAt: string | null; };
export type Message = { id: string; seq: number; conversationId: string; senderId: string | null; type: "text" | "attachment" | "system" | "event"; text: string | null; replyTo: string | null; threadRootId: string | null; replyCount: number; clientMessageId: string | null; attachment: Attachment | null; metadata: Record<string, unknown> | null; mentions: Array<string>; reactions: Array<{ emoji: string; count: number; userIds: Array<string>; }>; pinned: boolean; edited: boolean; editedAt: string | null; deleted: boolean; deletedAt: string | null; createdAt: string; updatedAt: string; cursor: string; };
export type MessagePage = { data: Array<Message>; nextCursor: string | null; previousCursor: string | null; hasMore: boolean; };
export type ReadState = { userId: string; lastReadMessageId: string | null; lastReadSeq: number | null; lastReadAt: string | null; unreadCount: number; mentionCount: number; };
export type PushSubscription = { id: string; userId: string; /** The push service; the address itself is never shown */ host: string; /** ISO 8601, UTC, milliseconds */ createdAt: string; /** ISO 8601, UTC, milliseconds */ lastPushedAt: string | null; };
export type Report = { id: string; conversationId: string; messageId: string; senderId: string | null; reporterId: string | null; reason: "spam" | "abuse" | "hate" | "sexual" | "violence" | "self_harm" | "other"; note: string | null; status: "OPEN" | "RESOLVED"; action: "none" | "delete_message" | "mute_sender" | "ban_sender" | null; message: Message | null; createdAt: string; resolvedAt: string | null; };
export type Ring = { id: string; conversationId: string; roomId: string; callerId: string | null; status: "RINGING" | "ANSWERED" | "DECLINED" | "MISSED" | "CANCELLED"; members: Array<{ userId: string; status: "RINGING" | "ANSWERED" | "DECLINED" | "MISSED"; }>; metadata: Record<string, unknown> | null; startedAt: string; expiresAt: string; endedAt: string | null; };
export type LiveStream = { id: string; title: string; description: string | null; thumbnailUrl: string | null; category: string | null; tags: Array<string>; language: string | null; visibility: "PUBLIC" | "PRIVATE" | "AUTHENTICATED"; metadata: Record<string, unknown> | null; status: "CREATED" | "LIVE" | "ENDED"; hostIdentity: string; roomId: string; conversationId: string; /** Viewers connected now; null when the media server cannot be asked */ viewerCount: number | null; peakViewerCount: number; /** ISO 8601, UTC, milliseconds */ scheduledAt: string | null; /** ISO 8601, UTC, milliseconds */ startedAt: string | null; /** ISO 8601, UTC, milliseconds */ endedAt: string | null; /** ISO 8601, UTC, milliseconds */ createdAt: string; /** ISO 8601, UTC, milliseconds */ updatedAt: string; };
export type StreamCredentials = { streamId: string; identity: string; role: "HOST" | "CO_HOST" | "VIEWER"; rtc: RtcToken; chat: ChatToken; };
export type Call = { id: string; roomId: string; roomName: string; status: "LIVE" | "ENDED"; /** ISO 8601, UTC, milliseconds */ startedAt: string; /** ISO 8601, UTC, milliseconds */ endedAt: string | null; /** So far, of a call that is on */ durationMs: number; /** Distinct identities so far */ participantCount: number; /** Most at once */ peakParticipants: number; /** Participant-minutes so far, as usage counts them */ minutes: number; };
export type Recording = { id: string; roomId: string; roomName: string; callId: string | null; name: string | null; audioOnly: boolean; status: "RECORDING" | "READY" | "FAILED" | "INTERRUPTED"; error: string | null; startedAt: string; endedAt: string | null; /** So far, of one that runs */ durationMs: number; bytes: number; files: Array<{ id: string; status: "READY" | "PENDING" | "LOST"; identity: string; trackId: string; kind: string; source: string; codec: string; mimeType: string; /** Where the file begins, from the recording's start */ offsetMs: number; durationMs: number; bytes: number; width: number | null; height: number | null; }>; composition: { status: "RUNNING" | "READY" | "FAILED"; progress: number; fileId: string | null; /** Why it failed */ error: string | null; } | null; };
export type Connection = { id: string; /** The client's own name for it */ connectionId: string; state: "CONNECTING" | "CONNECTED" | "RECONNECTING" | "DISCONNECTED" | "FAILED"; roomId: string | null; roomName: string | null; participantIdentity: string; serverName: string | null; sdk: string | null; userAgent: string | null; ipAddress: string | null; reconnectCount: number; rttMs: number | null; jitterMs: number | null; packetLossPercent: number | null; /** From the socket to the first media; null without media */ joinTimeMs: number | null; /** ISO 8601, UTC, milliseconds */ startedAt: string; /** ISO 8601, UTC, milliseconds */ connectedAt: string | null; /** ISO 8601, UTC, milliseconds */ disconnectedAt: string | null; /** From connectedAt */ durationMs: number | null; disconnectReason: string | null; };
export type ClassifiedError = { id: string; category: "AUTHENTICATION_ERROR" | "AUTHORIZATION_ERROR" | "TOKEN_ERROR" | "SIGNALING_ERROR" | "ICE_ERROR" | "TURN_ERROR" | "SFU_ERROR" | "NETWORK_ERROR" | "CLIENT_ERROR" | "UNKNOWN_ERROR"; code: string; message: string; likelyCause: string; suggestedAction: string; connectionId: string | null; roomId: string | null; /** ISO 8601, UTC, milliseconds */ occurredAt: string; };
export type PersonErasure = { id: string; status: "RUNNING" | "DONE"; /** ISO 8601, UTC, milliseconds */ requestedAt: string; /** ISO 8601, UTC, milliseconds */ finishedAt: string | null; };
export type PersonExport = { id: string; status: "RUNNING" | "READY" | "FAILED"; /** ISO 8601, UTC, milliseconds */ requestedAt: string; /** ISO 8601, UTC, milliseconds */ finishedAt: string | null; bytes: number | null; sha256: string | null; /** Where the tar can be read for a while; there once it is READY */ url?: string; };

/** One method for every route that an API key opens. */
export class Api extends Routes {
  readonly rooms = {
    /** The project's active rooms */
    list: (query: { limit?: number; cursor?: string; } = {}) => this.list<Room>(`/v1/rooms`, query),
    /** Create a room */
    create: (body: { /** 1-128 letters, digits, `-`, `_`, `.` */ name: string; /** Where its media should run; a preference, not a promise */ region?: string; /** Record every call in it */ record?: boolean; }, options: CallOptions = {}) => this.call<Room>("POST", `/v1/rooms`, body, {}, options),
    /** One room, by its id or its name */
    get: (id: string) => this.call<Room>("GET", `/v1/rooms/${this.seg(id)}`, undefined, {}),
    /** Close the room; everyone in it is disconnected */
    close: (id: string) => this.call<Room>("DELETE", `/v1/rooms/${this.seg(id)}`, undefined, {}),
    /** Who is in the room now, as the media server sees it */
    participants: (id: string) => this.list<Participant>(`/v1/rooms/${this.seg(id)}/participants`, {}),
    /** Remove a participant; no token minted so far brings them back */
    removeParticipant: (id: string, identity: string) => this.call<void>("DELETE", `/v1/rooms/${this.seg(id)}/participants/${this.seg(identity)}`, undefined, {}),
    /** Change a participant's permissions and attributes (merged), name or metadata, live */
    updateParticipant: (id: string, identity: string, body: { permissions?: { /** May join the room */ join?: boolean; /** May receive other participants' tracks */ subscribe?: boolean; /** May publish tracks */ publish?: boolean; /** With `publish`: restricts to audio */ publishAudio?: boolean; /** With `publish`: restricts to video */ publishVideo?: boolean; /** May send and receive data messages */ publishData?: boolean; /** May replace its own metadata */ updateMetadata?: boolean; }; metadata?: string | null; name?: string | null; attributes?: Record<string, unknown>; } = {}) => this.call<{ identity: string; name: string | null; attributes: Record<string, unknown>; kind: "standard" | "agent" | "ingress"; connectionId: string; state: "CONNECTING" | "CONNECTED" | "RECONNECTING" | "DISCONNECTED" | "FAILED"; permissions: Permissions; metadata: string | null; joinedAt: string; tracks: Array<{ id: string; kind: "audio" | "video"; source: "camera" | "microphone" | "screenShare" | "screenShareAudio" | "other"; name: string | null; muted: boolean; simulcast: boolean; codec: string | null; }>; }>("PATCH", `/v1/rooms/${this.seg(id)}/participants/${this.seg(identity)}`, body, {}),
    /** Mute a track; only its publisher can open it again */
    muteTrack: (id: string, identity: string, trackId: string, body: { muted: true; }, options: CallOptions = {}) => this.call<{ id: string; kind: "audio" | "video"; source: "camera" | "microphone" | "screenShare" | "screenShareAudio" | "other"; name: string | null; muted: boolean; simulcast: boolean; codec: string | null; }>("POST", `/v1/rooms/${this.seg(id)}/participants/${this.seg(identity)}/tracks/${this.seg(trackId)}/mute`, body, {}, options),
    /** Send data to everyone in the room who may receive it, or to those named */
    sendData: (id: string, body: { topic?: string; to?: Array<string>; payload: string; }, options: CallOptions = {}) => this.call<Record<string, never>>("POST", `/v1/rooms/${this.seg(id)}/data`, body, {}, options),
  };

  readonly rtcTokens = {
    /** Mint a token for one participant */
    mint: (id: string, body: { /** 1-128 characters of A-Z a-z 0-9 . _ @ : + = | - */ participantIdentity: string; permissions?: { /** May join the room */ join?: boolean; /** May receive other participants' tracks */ subscribe?: boolean; /** May publish tracks */ publish?: boolean; /** With `publish`: restricts to audio */ publishAudio?: boolean; /** With `publish`: restricts to video */ publishVideo?: boolean; /** May send and receive data messages */ publishData?: boolean; /** May replace its own metadata */ updateMetadata?: boolean; }; ttlSeconds?: number; /** At most 1024 characters, handed to every client */ metadata?: string; /** For people to read: any text of at most 128 characters */ name?: string; attributes?: Record<string, unknown>; kind?: "standard" | "agent" | "ingress"; }, options: CallOptions = {}) => this.call<RtcToken>("POST", `/v1/rooms/${this.seg(id)}/rtc-tokens`, body, {}, options),
    /** Revoke a token; whoever joined with it is disconnected and cannot come back */
    revoke: (id: string, tokenId: string) => this.call<void>("DELETE", `/v1/rooms/${this.seg(id)}/rtc-tokens/${this.seg(tokenId)}`, undefined, {}),
  };

  readonly conversations = {
    /** The project's conversations; with a chat token, those of its user */
    list: (query: { limit?: number; cursor?: string; status?: "ACTIVE" | "ARCHIVED"; } = {}) => this.list<Conversation>(`/v1/chat/conversations`, query),
    /** Create a conversation, optionally attached to an RTC room */
    create: (body: { /** 1-128 letters, digits, `-`, `_`, `.` */ name: string; type?: "CHANNEL" | "DIRECT" | "ROOM"; roomId?: string; retentionDays?: number; members?: Array<{ /** 1-128 characters of A-Z a-z 0-9 . _ @ : + = | - */ userId: string; role?: "MEMBER" | "MODERATOR" | "ADMIN"; /** Any JSON object; bounded in bytes of UTF-8 */ metadata?: Record<string, unknown>; }>; /** Any JSON object; bounded in bytes of UTF-8 */ metadata?: Record<string, unknown>; }, options: CallOptions = {}) => this.call<Conversation>("POST", `/v1/chat/conversations`, body, {}, options),
    /** One conversation */
    get: (room: string) => this.call<Conversation>("GET", `/v1/chat/conversations/${this.seg(room)}`, undefined, {}),
    /** Rename, archive or re-open, retention, slow mode */
    update: (room: string, body: { /** 1-128 letters, digits, `-`, `_`, `.` */ name?: string; status?: "ACTIVE" | "ARCHIVED"; retentionDays?: number | null; /** Any JSON object; bounded in bytes of UTF-8 */ metadata?: Record<string, unknown> | null; slowModeSeconds?: number; } = {}) => this.call<Conversation>("PATCH", `/v1/chat/conversations/${this.seg(room)}`, body, {}),
    /** Active members; moderators may ask for others by `status` */
    members: (room: string, query: { limit?: number; cursor?: string; status?: "ACTIVE" | "LEFT" | "BANNED"; } = {}) => this.list<ConversationMember>(`/v1/chat/conversations/${this.seg(room)}/members`, query),
    /** Add a member, or re-activate one */
    addMember: (room: string, body: { /** 1-128 characters of A-Z a-z 0-9 . _ @ : + = | - */ userId: string; role?: "MEMBER" | "MODERATOR" | "ADMIN"; /** Any JSON object; bounded in bytes of UTF-8 */ metadata?: Record<string, unknown>; }, options: CallOptions = {}) => this.call<ConversationMember>("POST", `/v1/chat/conversations/${this.seg(room)}/members`, body, {}, options),
    /** Role, mute, ban */
    updateMember: (room: string, userId: string, body: { role?: "MEMBER" | "MODERATOR" | "ADMIN"; /** ISO 8601, UTC, milliseconds */ mutedUntil?: string | null; status?: "ACTIVE" | "BANNED"; /** Any JSON object; bounded in bytes of UTF-8 */ metadata?: Record<string, unknown> | null; } = {}) => this.call<ConversationMember>("PATCH", `/v1/chat/conversations/${this.seg(room)}/members/${this.seg(userId)}`, body, {}),
    /** Remove a member; their messages keep an author */
    removeMember: (room: string, userId: string) => this.call<void>("DELETE", `/v1/chat/conversations/${this.seg(room)}/members/${this.seg(userId)}`, undefined, {}),
    /** Who is present now */
    presence: (room: string, query: { limit?: number; cursor?: string; } = {}) => this.list<{ userId: string; status: "online" | "away" | "offline"; at: string; }>(`/v1/chat/conversations/${this.seg(room)}/presence`, query),
    /** Who is typing */
    typing: (room: string, query: { limit?: number; cursor?: string; } = {}) => this.list<{ userId: string; startedAt: string; expiresAt: string; }>(`/v1/chat/conversations/${this.seg(room)}/typing`, query),
    /** Every member's read position */
    readReceipts: (room: string, query: { limit?: number; cursor?: string; } = {}) => this.list<{ userId: string; lastReadMessageId: string | null; lastReadSeq: number | null; lastReadAt: string | null; }>(`/v1/chat/conversations/${this.seg(room)}/read-receipts`, query),
    /** The user's read position and unread count */
    readState: (room: string, query: { userId?: string; } = {}) => this.call<ReadState>("GET", `/v1/chat/conversations/${this.seg(room)}/read-state`, undefined, query),
    /** Everything that happened after `after`, oldest first */
    events: (room: string, query: { after?: string; limit?: number; } = {}) => this.history<{ data: Array<{ type: "message"; seq: number; conversationId: string; at: string; message: Message; thread?: { rootId: string; replyCount: number; }; } | { type: "message.updated"; seq: number; conversationId: string; at: string; message: Message; } | { type: "message.deleted"; seq: number; conversationId: string; at: string; messageId: string; senderId: string | null; deletedAt: string; deletedBy: string | null; thread?: { rootId: string; replyCount: number; }; } | { type: "reaction.added"; seq: number; conversationId: string; at: string; messageId: string; userId: string; emoji: string; reactions: Array<{ emoji: string; count: number; userIds: Array<string>; }>; } | { type: "reaction.removed"; seq: number; conversationId: string; at: string; messageId: string; userId: string; emoji: string; reactions: Array<{ emoji: string; count: number; userIds: Array<string>; }>; } | { type: "member.joined"; seq: number; conversationId: string; at: string; userId: string; role: string; member: ConversationMember; } | { type: "member.left"; seq: number; conversationId: string; at: string; userId: string; role: string; member: ConversationMember; } | { type: "member.updated"; seq: number; conversationId: string; at: string; userId: string; role: string; member: ConversationMember; } | { type: "conversation.updated"; seq: number; conversationId: string; at: string; conversation: Conversation; }>; nextCursor: string | null; hasMore: boolean; epoch: string; lastSeq: number; recovered: boolean; }>(`/v1/chat/conversations/${this.seg(room)}/events`, query),
    /** What a user has not read, in total and by conversation */
    unread: (query: { userId?: string; } = {}) => this.call<{ userId: string; total: number; mentions: number; conversations: Array<{ conversationId: string; unreadCount: number; mentionCount: number; }>; }>("GET", `/v1/chat/unread`, undefined, query),
    /** Pinned messages, the last pinned first */
    pins: (room: string, query: { limit?: number; cursor?: string; } = {}) => this.list<Message>(`/v1/chat/conversations/${this.seg(room)}/pins`, query),
  };

  readonly messages = {
    /** Messages, newest first */
    history: (room: string, query: { limit?: number; before?: string; after?: string; threadRootId?: string; senderId?: string; includeDeleted?: boolean | string; } = {}) => this.history<MessagePage>(`/v1/chat/conversations/${this.seg(room)}/messages`, query),
    /** Send a message */
    send: (room: string, body: { text?: string; /** `text`, `attachment`; servers also `system`, `event` */ type?: string; replyTo?: string; clientMessageId?: string; attachmentId?: string; /** Any JSON object; bounded in bytes of UTF-8 */ metadata?: Record<string, unknown>; senderId?: string; /** Epoch milliseconds; for measuring latency only */ clientSentAt?: number; } = {}, options: CallOptions = {}) => this.call<{ id: string; seq: number; conversationId: string; senderId: string | null; type: "text" | "attachment" | "system" | "event"; text: string | null; replyTo: string | null; threadRootId: string | null; replyCount: number; clientMessageId: string | null; attachment: Attachment | null; metadata: Record<string, unknown> | null; mentions: Array<string>; reactions: Array<{ emoji: string; count: number; userIds: Array<string>; }>; pinned: boolean; edited: boolean; editedAt: string | null; deleted: boolean; deletedAt: string | null; createdAt: string; updatedAt: string; cursor: string; deduplicated: boolean; }>("POST", `/v1/chat/conversations/${this.seg(room)}/messages`, body, {}, options),
    /** One message, or its tombstone */
    get: (messageId: string) => this.call<Message>("GET", `/v1/chat/messages/${this.seg(messageId)}`, undefined, {}),
    /** Edit a message */
    edit: (messageId: string, body: { text?: string; /** Any JSON object; bounded in bytes of UTF-8 */ metadata?: Record<string, unknown> | null; } = {}) => this.call<Message>("PATCH", `/v1/chat/messages/${this.seg(messageId)}`, body, {}),
    /** Delete a message; a tombstone without content is left */
    delete: (messageId: string) => this.call<Message>("DELETE", `/v1/chat/messages/${this.seg(messageId)}`, undefined, {}),
    /** React to a message; once per user and emoji */
    react: (messageId: string, body: { emoji: string; userId?: string; }, options: CallOptions = {}) => this.call<{ messageId: string; emoji: string; userId: string; reactions: Array<{ emoji: string; count: number; userIds: Array<string>; }>; }>("POST", `/v1/chat/messages/${this.seg(messageId)}/reactions`, body, {}, options),
    /** Take a reaction back */
    unreact: (messageId: string, emoji: string, query: { userId?: string; } = {}) => this.call<void>("DELETE", `/v1/chat/messages/${this.seg(messageId)}/reactions/${this.seg(emoji)}`, undefined, query),
    /** Mark this message and all earlier ones as read */
    markRead: (messageId: string, body: { userId?: string; } = {}, query: { userId?: string; } = {}, options: CallOptions = {}) => this.call<ReadState>("POST", `/v1/chat/messages/${this.seg(messageId)}/read`, body, query, options),
    /** The whole thread: its root, then the replies, oldest first */
    thread: (messageId: string, query: { limit?: number; cursor?: string; includeDeleted?: boolean | string; } = {}) => this.list<Message>(`/v1/chat/messages/${this.seg(messageId)}/thread`, query),
    /** Pin a message */
    pin: (messageId: string, options: CallOptions = {}) => this.call<Message>("POST", `/v1/chat/messages/${this.seg(messageId)}/pin`, undefined, {}, options),
    /** Unpin a message */
    unpin: (messageId: string) => this.call<void>("DELETE", `/v1/chat/messages/${this.seg(messageId)}/pin`, undefined, {}),
    /** Messages that hold every word of `q`, newest first */
    search: (room: string, query: { limit?: number; cursor?: string; q: string; }) => this.list<Message>(`/v1/chat/conversations/${this.seg(room)}/search`, query),
    /** Report a message to the moderators; once per user */
    report: (messageId: string, body: { reason: "spam" | "abuse" | "hate" | "sexual" | "violence" | "self_harm" | "other"; /** 0-1000 characters */ note?: string; /** With an API key: the user who reports */ userId?: string; }, options: CallOptions = {}) => this.call<Report>("POST", `/v1/chat/messages/${this.seg(messageId)}/reports`, body, {}, options),
  };

  readonly rings = {
    /** Ring members of a conversation into its room */
    start: (room: string, body: { /** Members to ring; all others of the conversation when left out */ userIds?: Array<string>; timeoutSeconds?: number; /** Any JSON object, shown to the members who are rung */ metadata?: Record<string, unknown>; /** With an API key: the user who rings; the server itself when left out. Ignored from a chat token. */ userId?: string; } = {}, options: CallOptions = {}) => this.call<Ring>("POST", `/v1/chat/conversations/${this.seg(room)}/rings`, body, {}, options),
    /** One ring */
    get: (ringId: string) => this.call<Ring>("GET", `/v1/chat/rings/${this.seg(ringId)}`, undefined, {}),
    /** Answer a ring; joining the room does the same */
    answer: (ringId: string, body: { userId?: string; } = {}, options: CallOptions = {}) => this.call<Ring>("POST", `/v1/chat/rings/${this.seg(ringId)}/answer`, body, {}, options),
    /** Decline a ring */
    decline: (ringId: string, body: { userId?: string; } = {}, options: CallOptions = {}) => this.call<Ring>("POST", `/v1/chat/rings/${this.seg(ringId)}/decline`, body, {}, options),
    /** Cancel a ring; for its caller */
    cancel: (ringId: string, options: CallOptions = {}) => this.call<Ring>("POST", `/v1/chat/rings/${this.seg(ringId)}/cancel`, undefined, {}, options),
  };

  readonly chatTokens = {
    /** Mint a chat token for one user */
    mint: (body: { /** 1-128 characters of A-Z a-z 0-9 . _ @ : + = | - */ userId: string; conversations?: Array<string>; scopes?: Array<string>; ttlSeconds?: number; }, options: CallOptions = {}) => this.call<ChatToken>("POST", `/v1/chat/tokens`, body, {}, options),
    /** Revoke a chat token; its sockets are closed */
    revoke: (tokenId: string) => this.call<void>("DELETE", `/v1/chat/tokens/${this.seg(tokenId)}`, undefined, {}),
  };

  readonly attachments = {
    /** Request an address to upload an attachment to */
    create: (room: string, body: { /** 1-255 characters; kept and shown, never used as a path */ filename: string; mimeType: string; /** Bytes; at most STORAGE_MAX_ATTACHMENT_BYTES */ size: number; uploaderId?: string; /** Any JSON object; bounded in bytes of UTF-8 */ metadata?: Record<string, unknown>; }, options: CallOptions = {}) => this.call<{ id: string; conversationId: string; filename: string; mimeType: string; size: number; sha256: string | null; status: "PENDING" | "UPLOADED" | "EXPIRED"; uploaderId: string | null; metadata: Record<string, unknown> | null; createdAt: string; uploadUrl: string; uploadMethod: "PUT"; uploadHeaders: Record<string, unknown>; /** ISO 8601, UTC, milliseconds */ expiresAt: string; }>("POST", `/v1/chat/conversations/${this.seg(room)}/attachments`, body, {}, options),
    /** One attachment */
    get: (attachmentId: string) => this.call<Attachment>("GET", `/v1/chat/attachments/${this.seg(attachmentId)}`, undefined, {}),
    /** Confirm the upload, so that the attachment can be sent */
    complete: (attachmentId: string, options: CallOptions = {}) => this.call<Attachment>("POST", `/v1/chat/attachments/${this.seg(attachmentId)}/complete`, undefined, {}, options),
    /** A short-lived address to download the attachment from */
    downloadUrl: (attachmentId: string) => this.call<{ url: string; /** ISO 8601, UTC, milliseconds */ expiresAt: string; }>("GET", `/v1/chat/attachments/${this.seg(attachmentId)}/download-url`, undefined, {}),
  };

  readonly blocks = {
    /** Users whom a user has blocked, by user id */
    list: (query: { limit?: number; cursor?: string; userId?: string; } = {}) => this.list<{ /** The blocked user */ userId: string; /** ISO 8601, UTC, milliseconds */ createdAt: string; }>(`/v1/chat/blocks`, query),
    /** Block a user */
    add: (blockedUserId: string, query: { userId?: string; } = {}) => this.call<{ /** The blocked user */ userId: string; /** ISO 8601, UTC, milliseconds */ createdAt: string; }>("PUT", `/v1/chat/blocks/${this.seg(blockedUserId)}`, undefined, query),
    /** Unblock a user */
    remove: (blockedUserId: string, query: { userId?: string; } = {}) => this.call<void>("DELETE", `/v1/chat/blocks/${this.seg(blockedUserId)}`, undefined, query),
  };

  readonly reports = {
    /** Reported messages, newest report first */
    list: (query: { limit?: number; cursor?: string; status?: "OPEN" | "RESOLVED"; } = {}) => this.list<Report>(`/v1/chat/reports`, query),
    /** One report, with the message in its current state */
    get: (reportId: string) => this.call<Report>("GET", `/v1/chat/reports/${this.seg(reportId)}`, undefined, {}),
    /** Resolve a report, and all others of the same message */
    resolve: (reportId: string, body: { action: "none" | "delete_message" | "mute_sender" | "ban_sender"; /** For mute_sender; a day when left out */ muteSeconds?: number; }, options: CallOptions = {}) => this.call<Report>("POST", `/v1/chat/reports/${this.seg(reportId)}/resolve`, body, {}, options),
  };

  readonly wordList = {
    /** Words that are refused, masked or reported */
    get: () => this.call<{ refuse: Array<string>; mask: Array<string>; report: Array<string>; }>("GET", `/v1/chat/word-list`, undefined, {}),
    /** Replace the word list */
    replace: (body: { refuse: Array<string>; mask: Array<string>; report: Array<string>; }) => this.call<{ refuse: Array<string>; mask: Array<string>; report: Array<string>; }>("PUT", `/v1/chat/word-list`, body, {}),
  };

  readonly push = {
    /** The key that browsers subscribe with */
    key: () => this.call<{ /** For `pushManager.subscribe` as `applicationServerKey`; base64url */ publicKey: string; }>("GET", `/v1/chat/push/key`, undefined, {}),
    /** Push subscriptions of a user, oldest first */
    subscriptions: (query: { userId?: string; } = {}) => this.list<PushSubscription>(`/v1/chat/push/subscriptions`, query),
    /** Subscribe a browser to pushes for the time without an open socket */
    subscribe: (body: { /** The `endpoint` of PushSubscription.toJSON() */ endpoint: string; keys: { p256dh: string; auth: string; }; /** With an API key: the user of the browser */ userId?: string; }, options: CallOptions = {}) => this.call<PushSubscription>("POST", `/v1/chat/push/subscriptions`, body, {}, options),
    /** Remove a push subscription */
    unsubscribe: (subscriptionId: string) => this.call<void>("DELETE", `/v1/chat/push/subscriptions/${this.seg(subscriptionId)}`, undefined, {}),
    /** The notification setting of a user for a conversation */
    getNotifications: (room: string, query: { userId?: string; } = {}) => this.call<{ /** `mentions`: mentions and rings; `none`: nothing */ level: "all" | "mentions" | "none"; /** ISO 8601, UTC, milliseconds */ mutedUntil: string | null; }>("GET", `/v1/chat/conversations/${this.seg(room)}/notifications`, undefined, query),
    /** Change the notification setting of a user for a conversation */
    setNotifications: (room: string, body: { level: "all" | "mentions" | "none"; /** ISO 8601, UTC, milliseconds */ mutedUntil?: string | null; /** With an API key: the user of the setting */ userId?: string; }) => this.call<{ /** `mentions`: mentions and rings; `none`: nothing */ level: "all" | "mentions" | "none"; /** ISO 8601, UTC, milliseconds */ mutedUntil: string | null; }>("PUT", `/v1/chat/conversations/${this.seg(room)}/notifications`, body, {}),
  };

  readonly liveStreams = {
    /** The project's live streams, newest first */
    list: (query: { limit?: number; cursor?: string; visibility?: "PUBLIC" | "PRIVATE" | "AUTHENTICATED"; status?: "CREATED" | "LIVE" | "ENDED"; } = {}) => this.list<LiveStream>(`/v1/live-streams`, query),
    /** Create a live stream */
    create: (body: { /** 1-200 characters */ title: string; /** 1-128 characters of A-Z a-z 0-9 . _ @ : + = | - */ hostIdentity: string; /** 0-2000 characters */ description?: string | null; /** 0-2048 characters */ thumbnailUrl?: string | null; /** 0-64 characters */ category?: string | null; tags?: Array<string>; /** 0-16 characters */ language?: string | null; visibility?: "PUBLIC" | "PRIVATE" | "AUTHENTICATED"; metadata?: Record<string, unknown> | null; /** ISO 8601, UTC, milliseconds */ scheduledAt?: string | null; /** Record it from its start to its end, and offer it as HLS */ record?: boolean; }, options: CallOptions = {}) => this.call<LiveStream>("POST", `/v1/live-streams`, body, {}, options),
    /** One live stream with its viewers now */
    get: (streamId: string) => this.call<LiveStream>("GET", `/v1/live-streams/${this.seg(streamId)}`, undefined, {}),
    /** Change what describes a live stream, in any state */
    update: (streamId: string, body: { /** 1-200 characters */ title?: string; /** 0-2000 characters */ description?: string | null; /** 0-2048 characters */ thumbnailUrl?: string | null; /** 0-64 characters */ category?: string | null; tags?: Array<string>; /** 0-16 characters */ language?: string | null; visibility?: "PUBLIC" | "PRIVATE" | "AUTHENTICATED"; metadata?: Record<string, unknown> | null; } = {}) => this.call<LiveStream>("PATCH", `/v1/live-streams/${this.seg(streamId)}`, body, {}),
    /** Go live: CREATED to LIVE */
    start: (streamId: string, options: CallOptions = {}) => this.call<LiveStream>("POST", `/v1/live-streams/${this.seg(streamId)}/start`, undefined, {}, options),
    /** End for good: LIVE to ENDED; everyone in the room is disconnected */
    end: (streamId: string, options: CallOptions = {}) => this.call<LiveStream>("POST", `/v1/live-streams/${this.seg(streamId)}/end`, undefined, {}, options),
    /** Register a host and mint its credentials */
    addHost: (streamId: string, body: { /** 1-128 characters of A-Z a-z 0-9 . _ @ : + = | - */ identity: string; role?: "HOST" | "CO_HOST"; }, options: CallOptions = {}) => this.call<StreamCredentials>("POST", `/v1/live-streams/${this.seg(streamId)}/hosts`, body, {}, options),
    /** Remove a co-host: out of room and chat at once, what they wrote stays */
    removeHost: (streamId: string, identity: string) => this.call<void>("DELETE", `/v1/live-streams/${this.seg(streamId)}/hosts/${this.seg(identity)}`, undefined, {}),
    /** Mint a viewer's credentials */
    mintViewerToken: (streamId: string, body: { /** 1-128 characters of A-Z a-z 0-9 . _ @ : + = | - */ identity: string; }, options: CallOptions = {}) => this.call<StreamCredentials>("POST", `/v1/live-streams/${this.seg(streamId)}/viewer-tokens`, body, {}, options),
    /** Remove and bar a viewer */
    removeViewer: (streamId: string, identity: string) => this.call<void>("DELETE", `/v1/live-streams/${this.seg(streamId)}/viewers/${this.seg(identity)}`, undefined, {}),
    /** Report that a viewer has left */
    viewerLeft: (streamId: string, body: { /** 1-128 characters of A-Z a-z 0-9 . _ @ : + = | - */ identity: string; }, options: CallOptions = {}) => this.call<void>("POST", `/v1/live-streams/${this.seg(streamId)}/leave`, body, {}, options),
  };

  readonly webhooks = {
    /** Webhook endpoints of the key's environment */
    list: (query: { limit?: number; cursor?: string; } = {}) => this.list<{ id: string; projectId: string; url: string; description: string | null; environment: "DEVELOPMENT" | "PRODUCTION"; events: Array<string>; status: "ACTIVE" | "DISABLED"; disabledReason: "manual" | "consecutive_failures" | "gone" | null; consecutiveFailures: number; /** ISO 8601, UTC, milliseconds */ lastDeliveryAt: string | null; /** ISO 8601, UTC, milliseconds */ createdAt: string; /** ISO 8601, UTC, milliseconds */ updatedAt: string; }>(`/v1/webhooks`, query),
    /** Register an endpoint */
    create: (body: { /** https; http for loopback in DEVELOPMENT */ url: string; /** Event types to receive; empty or omitted for all types, including those added later */ events?: Array<"live_stream.created" | "live_stream.started" | "live_stream.ended" | "live_stream.host_joined" | "live_stream.host_left" | "live_stream.viewer_joined" | "live_stream.viewer_left" | "message.created" | "message.updated" | "message.deleted" | "reaction.added" | "reaction.removed" | "room.created" | "participant.joined" | "participant.left" | "message.reported" | "call.started" | "call.participant_joined" | "call.participant_left" | "call.ended" | "call.ringing" | "call.ring_ended" | "recording.started" | "recording.ready" | "recording.failed">; description?: string | null; }, options: CallOptions = {}) => this.call<{ id: string; projectId: string; url: string; description: string | null; environment: "DEVELOPMENT" | "PRODUCTION"; events: Array<string>; status: "ACTIVE" | "DISABLED"; disabledReason: "manual" | "consecutive_failures" | "gone" | null; consecutiveFailures: number; /** ISO 8601, UTC, milliseconds */ lastDeliveryAt: string | null; /** ISO 8601, UTC, milliseconds */ createdAt: string; /** ISO 8601, UTC, milliseconds */ updatedAt: string; /** Shown this once */ secret: string; }>("POST", `/v1/webhooks`, body, {}, options),
    /** One endpoint */
    get: (webhookId: string) => this.call<{ id: string; projectId: string; url: string; description: string | null; environment: "DEVELOPMENT" | "PRODUCTION"; events: Array<string>; status: "ACTIVE" | "DISABLED"; disabledReason: "manual" | "consecutive_failures" | "gone" | null; consecutiveFailures: number; /** ISO 8601, UTC, milliseconds */ lastDeliveryAt: string | null; /** ISO 8601, UTC, milliseconds */ createdAt: string; /** ISO 8601, UTC, milliseconds */ updatedAt: string; }>("GET", `/v1/webhooks/${this.seg(webhookId)}`, undefined, {}),
    /** Change an endpoint */
    update: (webhookId: string, body: { /** https; http for loopback in DEVELOPMENT */ url?: string; /** Event types to receive; empty or omitted for all types, including those added later */ events?: Array<"live_stream.created" | "live_stream.started" | "live_stream.ended" | "live_stream.host_joined" | "live_stream.host_left" | "live_stream.viewer_joined" | "live_stream.viewer_left" | "message.created" | "message.updated" | "message.deleted" | "reaction.added" | "reaction.removed" | "room.created" | "participant.joined" | "participant.left" | "message.reported" | "call.started" | "call.participant_joined" | "call.participant_left" | "call.ended" | "call.ringing" | "call.ring_ended" | "recording.started" | "recording.ready" | "recording.failed">; description?: string | null; status?: "ACTIVE" | "DISABLED"; } = {}) => this.call<{ id: string; projectId: string; url: string; description: string | null; environment: "DEVELOPMENT" | "PRODUCTION"; events: Array<string>; status: "ACTIVE" | "DISABLED"; disabledReason: "manual" | "consecutive_failures" | "gone" | null; consecutiveFailures: number; /** ISO 8601, UTC, milliseconds */ lastDeliveryAt: string | null; /** ISO 8601, UTC, milliseconds */ createdAt: string; /** ISO 8601, UTC, milliseconds */ updatedAt: string; }>("PATCH", `/v1/webhooks/${this.seg(webhookId)}`, body, {}),
    /** Delete an endpoint and its deliveries */
    delete: (webhookId: string) => this.call<void>("DELETE", `/v1/webhooks/${this.seg(webhookId)}`, undefined, {}),
    /** Replace the signing secret */
    rotateSecret: (webhookId: string, body: { /** How long the old secret still signs; a day by default */ overlapSeconds?: number; } = {}, options: CallOptions = {}) => this.call<{ id: string; projectId: string; url: string; description: string | null; environment: "DEVELOPMENT" | "PRODUCTION"; events: Array<string>; status: "ACTIVE" | "DISABLED"; disabledReason: "manual" | "consecutive_failures" | "gone" | null; consecutiveFailures: number; /** ISO 8601, UTC, milliseconds */ lastDeliveryAt: string | null; /** ISO 8601, UTC, milliseconds */ createdAt: string; /** ISO 8601, UTC, milliseconds */ updatedAt: string; /** Shown this once */ secret: string; }>("POST", `/v1/webhooks/${this.seg(webhookId)}/rotate-secret`, body, {}, options),
    /** Deliveries of the last 30 days with their attempts, newest first */
    deliveries: (webhookId: string, query: { status?: "PENDING" | "DELIVERED" | "FAILED"; limit?: number; cursor?: string; } = {}) => this.list<{ id: string; eventId: string; eventType: string; status: "PENDING" | "DELIVERED" | "FAILED"; attempts: Array<{ /** ISO 8601, UTC, milliseconds */ at: string; statusCode: number | null; durationMs: number; error: string | null; }>; attemptCount: number; /** ISO 8601, UTC, milliseconds */ nextAttemptAt: string | null; lastError: string | null; /** ISO 8601, UTC, milliseconds */ createdAt: string; /** ISO 8601, UTC, milliseconds */ deliveredAt: string | null; }>(`/v1/webhooks/${this.seg(webhookId)}/deliveries`, query),
    /** One delivery with the body sent */
    getDeliveries: (webhookId: string, deliveryId: string) => this.call<{ id: string; eventId: string; eventType: string; status: "PENDING" | "DELIVERED" | "FAILED"; attempts: Array<{ /** ISO 8601, UTC, milliseconds */ at: string; statusCode: number | null; durationMs: number; error: string | null; }>; attemptCount: number; /** ISO 8601, UTC, milliseconds */ nextAttemptAt: string | null; lastError: string | null; /** ISO 8601, UTC, milliseconds */ createdAt: string; /** ISO 8601, UTC, milliseconds */ deliveredAt: string | null; /** As it is sent */ body: string; }>("GET", `/v1/webhooks/${this.seg(webhookId)}/deliveries/${this.seg(deliveryId)}`, undefined, {}),
    /** Send a delivery again: same event id, same bytes */
    deliveriesRedeliver: (webhookId: string, deliveryId: string, options: CallOptions = {}) => this.call<{ id: string; eventId: string; eventType: string; status: "PENDING" | "DELIVERED" | "FAILED"; attempts: Array<{ /** ISO 8601, UTC, milliseconds */ at: string; statusCode: number | null; durationMs: number; error: string | null; }>; attemptCount: number; /** ISO 8601, UTC, milliseconds */ nextAttemptAt: string | null; lastError: string | null; /** ISO 8601, UTC, milliseconds */ createdAt: string; /** ISO 8601, UTC, milliseconds */ deliveredAt: string | null; }>("POST", `/v1/webhooks/${this.seg(webhookId)}/deliveries/${this.seg(deliveryId)}/redeliver`, undefined, {}, options),
    /** Send a test event */
    test: (webhookId: string, options: CallOptions = {}) => this.call<{ id: string; eventId: string; eventType: string; status: "PENDING" | "DELIVERED" | "FAILED"; attempts: Array<{ /** ISO 8601, UTC, milliseconds */ at: string; statusCode: number | null; durationMs: number; error: string | null; }>; attemptCount: number; /** ISO 8601, UTC, milliseconds */ nextAttemptAt: string | null; lastError: string | null; /** ISO 8601, UTC, milliseconds */ createdAt: string; /** ISO 8601, UTC, milliseconds */ deliveredAt: string | null; }>("POST", `/v1/webhooks/${this.seg(webhookId)}/test`, undefined, {}, options),
    /** Send again what failed, or happened while the endpoint was disabled */
    recover: (webhookId: string, body: { /** From this time; by default from the first failure */ since?: string; /** ISO 8601, UTC, milliseconds */ until?: string; } = {}, options: CallOptions = {}) => this.call<{ /** Deliveries that are sent again */ recovered: number; }>("POST", `/v1/webhooks/${this.seg(webhookId)}/recover`, body, {}, options),
  };

  readonly calls = {
    /** Calls, newest first */
    list: (query: { limit?: number; cursor?: string; roomId?: string; status?: "LIVE" | "ENDED"; /** Only calls that this connection was part of */ connectionId?: string; } = {}) => this.list<Call>(`/v1/calls`, query),
    /** A call with its participants */
    get: (callId: string) => this.call<{ id: string; roomId: string; roomName: string; status: "LIVE" | "ENDED"; /** ISO 8601, UTC, milliseconds */ startedAt: string; /** ISO 8601, UTC, milliseconds */ endedAt: string | null; /** So far, of a call that is on */ durationMs: number; /** Distinct identities so far */ participantCount: number; /** Most at once */ peakParticipants: number; /** Participant-minutes so far, as usage counts them */ minutes: number; participants: Array<{ identity: string; connectionId: string; /** ISO 8601, UTC, milliseconds */ joinedAt: string; /** ISO 8601, UTC, milliseconds */ leftAt: string | null; leaveReason: string | null; quality: "excellent" | "good" | "poor" | "lost" | null; verdict: { quality: "excellent" | "good" | "poor" | "lost"; cause: "none" | "uplink_loss" | "uplink_narrow" | "downlink_loss" | "downlink_narrow" | "high_rtt" | "relayed" | "publisher_cpu" | "device" | "reconnects" | "media_stalled" | "server_overload"; sentence: string; evidence: Record<string, unknown>; } | null; }>; }>("GET", `/v1/calls/${this.seg(callId)}`, undefined, {}),
    /** What happened in a call, in order */
    timeline: (callId: string) => this.list<{ /** From the call's start */ atMs: number; /** participant.joined, participant.left, track.published, track.unpublished, quality.changed, encoder.limited, reconnecting, reconnected, media.stalled, media.flows, error, message */ type: string; identity?: string; }>(`/v1/calls/${this.seg(callId)}/timeline`, {}),
  };

  readonly recordings = {
    /** Record a room; an empty one from its first packet on */
    start: (id: string, body: { /** For people to find it by */ name?: string; /** Leave pictures out */ audioOnly?: boolean; } = {}, options: CallOptions = {}) => this.call<Recording>("POST", `/v1/rooms/${this.seg(id)}/recordings`, body, {}, options),
    /** Recordings, newest first */
    list: (query: { limit?: number; cursor?: string; roomId?: string; status?: "RECORDING" | "READY" | "FAILED" | "INTERRUPTED"; } = {}) => this.list<Recording>(`/v1/recordings`, query),
    /** A recording with its files */
    get: (recordingId: string) => this.call<Recording>("GET", `/v1/recordings/${this.seg(recordingId)}`, undefined, {}),
    /** Delete a recording and its files; one that runs is stopped first */
    delete: (recordingId: string) => this.call<void>("DELETE", `/v1/recordings/${this.seg(recordingId)}`, undefined, {}),
    /** Stop a recording; answers when its files are complete */
    stop: (recordingId: string, options: CallOptions = {}) => this.call<Recording>("POST", `/v1/recordings/${this.seg(recordingId)}/stop`, undefined, {}, options),
    /** A short-lived address of one file */
    downloadUrl: (recordingId: string, fileId: string) => this.call<{ url: string; /** ISO 8601, UTC, milliseconds */ expiresAt: string; }>("GET", `/v1/recordings/${this.seg(recordingId)}/files/${this.seg(fileId)}/download-url`, undefined, {}),
    /** What happened while it ran, in order */
    timeline: (recordingId: string, query: { limit?: number; cursor?: string; } = {}) => this.list<{ /** From the recording's start */ atMs: number; /** As the push of the same name, or message */ type: string; identity?: string; }>(`/v1/recordings/${this.seg(recordingId)}/timeline`, query),
    /** Make one film of a recording; its progress is in the record */
    compose: (recordingId: string, body: { layout: "grid" | "speaker"; /** Of the picture; 1280 by default */ width?: number; /** Of the picture; 720 by default */ height?: number; /** Write in each picture who it is; true by default */ names?: boolean; }, options: CallOptions = {}) => this.call<Recording>("POST", `/v1/recordings/${this.seg(recordingId)}/composition`, body, {}, options),
    /** Cancel the film that is being made of a recording, or delete the one that was */
    discardComposition: (recordingId: string) => this.call<void>("DELETE", `/v1/recordings/${this.seg(recordingId)}/composition`, undefined, {}),
    /** A link to the replay of a recording */
    mintViewToken: (recordingId: string, body: { /** How long the link works; 3600 by default */ ttlSeconds?: number; } = {}, options: CallOptions = {}) => this.call<{ /** The replay page; what stands after `#token=` is for GET /v1/replays/{token} */ url: string; }>("POST", `/v1/recordings/${this.seg(recordingId)}/view-tokens`, body, {}, options),
  };

  readonly people = {
    /** What is held about a user */
    get: (userId: string) => this.call<{ userId: string; counts: { messages: number; memberships: number; reactions: number; readStates: number; attachments: number; mentions: number; rings: number; blocks: number; reports: number; pushSubscriptions: number; notificationSettings: number; chatConnections: number; connections: number; calls: number; recordedTracks: number; mediaSessions: number; liveStreams: number; tokens: number; }; total: number; /** The last time that this user was erased */ erasure: PersonErasure | null; /** Those that are kept, newest first */ exports: Array<PersonExport>; }>("GET", `/v1/people/${this.seg(userId)}`, undefined, {}),
    /** Erase a user */
    erase: (userId: string) => this.call<PersonErasure>("DELETE", `/v1/people/${this.seg(userId)}`, undefined, {}),
    /** Begin an export of everything held about a user */
    export: (userId: string, options: CallOptions = {}) => this.call<PersonExport>("POST", `/v1/people/${this.seg(userId)}/exports`, undefined, {}, options),
    /** An export: whether it is ready, and where to fetch it */
    getExport: (userId: string, exportId: string) => this.call<PersonExport>("GET", `/v1/people/${this.seg(userId)}/exports/${this.seg(exportId)}`, undefined, {}),
  };

  readonly connections = {
    /** Connections, newest first */
    list: (query: { limit?: number; cursor?: string; state?: "CONNECTING" | "CONNECTED" | "RECONNECTING" | "DISCONNECTED" | "FAILED"; roomId?: string; } = {}) => this.list<Connection>(`/v1/connections`, query),
    /** A connection with its timeline and errors */
    get: (connectionId: string) => this.call<{ id: string; /** The client's own name for it */ connectionId: string; state: "CONNECTING" | "CONNECTED" | "RECONNECTING" | "DISCONNECTED" | "FAILED"; roomId: string | null; roomName: string | null; participantIdentity: string; serverName: string | null; sdk: string | null; userAgent: string | null; ipAddress: string | null; reconnectCount: number; rttMs: number | null; jitterMs: number | null; packetLossPercent: number | null; /** From the socket to the first media; null without media */ joinTimeMs: number | null; /** ISO 8601, UTC, milliseconds */ startedAt: string; /** ISO 8601, UTC, milliseconds */ connectedAt: string | null; /** ISO 8601, UTC, milliseconds */ disconnectedAt: string | null; /** From connectedAt */ durationMs: number | null; disconnectReason: string | null; events: Array<{ type: "connection_started" | "connected" | "reconnecting" | "reconnected" | "disconnected" | "connection_failed" | "ice_state_changed" | "signaling_state_changed" | "participant_joined" | "participant_left" | "participant_reconnected" | "participant_connection_failed" | "participant_connection_quality_changed" | "track_published" | "track_unpublished" | "error"; source: "server" | "client"; /** ISO 8601, UTC, milliseconds */ timestamp: string; data: Record<string, unknown> | null; }>; errors: Array<ClassifiedError>; }>("GET", `/v1/connections/${this.seg(connectionId)}`, undefined, {}),
    /** Keep what the flight recorder of a connection holds */
    dump: (connectionId: string, options: CallOptions = {}) => this.call<{ id: string; /** The client's own name for it */ connectionId: string; /** The code of the error it was kept for, or asked */ reason: string; /** ISO 8601, UTC, milliseconds */ takenAt: string; /** As it is stored */ bytes: number; }>("POST", `/v1/connections/${this.seg(connectionId)}/dump`, undefined, {}, options),
    /** Dumps of a connection, newest first */
    dumps: (connectionId: string) => this.list<{ id: string; /** The client's own name for it */ connectionId: string; /** The code of the error it was kept for, or asked */ reason: string; /** ISO 8601, UTC, milliseconds */ takenAt: string; /** As it is stored */ bytes: number; }>(`/v1/connections/${this.seg(connectionId)}/dumps`, {}),
    /** A dump */
    getDump: (connectionId: string, dumpId: string) => this.call<{ version: 1; sinceMs: number; lastedMs: number; streams: Array<{ ssrc: number; kind: string; codec: string; clockRate: number; rid: string | null; }>; /** atMs, ssrc, sequence number, timestamp, bytes, marker (0 or 1), retransmitted (0 or 1) */ received: Array<Array<number>>; /** atMs, transport-wide sequence number, bytes, number of the probe or 0 */ sent: Array<Array<number>>; rtcp: Array<{ atMs: number; /** A report of the client as base64, without descriptions of its source */ packet: string; }>; /** atMs, estimate in bit/s, queue in ms, RTT in ms, loss from and towards it in percent, jitter in ms; -1: not known */ states: Array<Array<number>>; }>("GET", `/v1/connections/${this.seg(connectionId)}/dumps/${this.seg(dumpId)}`, undefined, {}),
  };

  readonly errors = {
    /** Classified errors, newest first */
    list: (query: { limit?: number; cursor?: string; category?: "AUTHENTICATION_ERROR" | "AUTHORIZATION_ERROR" | "TOKEN_ERROR" | "SIGNALING_ERROR" | "ICE_ERROR" | "TURN_ERROR" | "SFU_ERROR" | "NETWORK_ERROR" | "CLIENT_ERROR" | "UNKNOWN_ERROR"; connectionId?: string; } = {}) => this.list<ClassifiedError>(`/v1/errors`, query),
    /** A classified error with its connection */
    get: (errorId: string) => this.call<{ id: string; category: "AUTHENTICATION_ERROR" | "AUTHORIZATION_ERROR" | "TOKEN_ERROR" | "SIGNALING_ERROR" | "ICE_ERROR" | "TURN_ERROR" | "SFU_ERROR" | "NETWORK_ERROR" | "CLIENT_ERROR" | "UNKNOWN_ERROR"; code: string; message: string; likelyCause: string; suggestedAction: string; connectionId: string | null; roomId: string | null; /** ISO 8601, UTC, milliseconds */ occurredAt: string; connection: Connection | null; }>("GET", `/v1/errors/${this.seg(errorId)}`, undefined, {}),
  };

  readonly observability = {
    /** Connection and error figures over a range */
    metrics: (query: { range?: "15m" | "1h" | "24h" | "7d"; } = {}) => this.call<{ rangeSeconds: number; activeRooms: number; activeParticipants: number; connections: number; connectionSuccessRate: number | null; reconnectionRate: number | null; averageConnectionDurationMs: number | null; joinTimeMs: { p50: number | null; p95: number | null; p99: number | null; }; errors: { total: number; byCategory: Record<string, unknown>; }; }>("GET", `/v1/metrics`, undefined, query),
    /** Whether each dependency answers */
    diagnostics: () => this.call<{ status: "ok" | "degraded" | "down"; /** ISO 8601, UTC, milliseconds */ checkedAt: string; dependencies: Array<{ name: string; status: "ok" | "degraded" | "down"; latencyMs: number | null; detail: string | null; }>; }>("GET", `/v1/diagnostics`, undefined, {}),
  };

  readonly projects = {
    /** The key's own project */
    current: () => this.call<Project>("GET", `/v1/project`, undefined, {}),
  };
}
