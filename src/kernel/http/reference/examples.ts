import { WEBHOOK_MEANINGS } from "../../../protocol/webhook-payloads.ts";

type Json = Record<string, unknown>;
type Resolve = (ref: string) => Json;

const ROOM = "0199b0c6-7d4e-7a31-9f10-2b6f3c8a5e01";
const PROJECT = "0199b0c0-11aa-7c02-8a44-90d1f5e3b702";
const TIME = "2026-03-01T12:00:00.000Z";
const LATER = "2026-03-01T13:00:00.000Z";
const HOUR_MS = 3_600_000;
const RING_EXPIRES = "2026-03-01T12:00:30.000Z";
const RING_ANSWERED = "2026-03-01T12:00:08.000Z";

const EVENT_ID = "evt_9Lx4cQ7zS2hB6vM1kD8pR5tW";

/** Values by field, or by record and field where that matters: all examples belong to one fictitious project. */
const FIELDS: Record<string, unknown> = {
  "Message.id": "msg_4Tq8mZ1xW7cK2rB9nF6dY3sL",
  "Message.mentions": [],
  "Message.reactions": [],
  "Attachment.id": "att_8Hs2kV5pQ1zN7wC4xJ9mT6bR",
  "Conversation.id": "conv_2Jw7rX4nL9kD1sV6tH8qP3mZ",
  "LiveStream.id": "stream_6Pd3bM8vK1yT5gR9jW2nX7cQ",
  "Room.name": "standup",
  "RoomWithParticipants.name": "standup",
  "CreateRoom.name": "standup",
  "Conversation.name": "standup-chat",
  "CreateConversation.name": "standup-chat",
  "RtcServer.name": "eu1",
  "RegisterServer.name": "eu1",
  "Member.name": "Ada Lovelace",
  "User.name": "Ada Lovelace",
  "ApiKey.name": "backend",
  "CreateApiKey.name": "backend",
  "Conversation.metadata": { topic: "releases" },
  "Recording.id": "rec_7Qm2xB9kV4wN1tR6cH3pZ8sD",
  "Recording.name": "Stand-up of 1 March",
  "Recording.status": "READY",
  "Recording.error": null,
  "Recording.bytes": 412_000_000,
  "RecordingFile.id": "0199b0c8-4b5c-7d6e-8f70-81927a3b4c5d",
  "RecordingFile.mimeType": "video/webm",
  "Ring.id": "ring_1Yt6nC8vM3xK5bW9qL2rF7hJ",
  "Ring.status": "RINGING",
  "Ring.members": [{ userId: "grace", status: "RINGING" }],
  "Ring.endedAt": null,
  "ConversationMember.name": "Ada Lovelace",
  "CallParticipant.name": "Ada Lovelace",
  "AddMember.name": "Ada Lovelace",
  "MintRtcToken.name": "Ada Lovelace",
  "RtcToken.name": "Ada Lovelace",
  "Participant.name": "Ada Lovelace",
  "LiveParticipant.name": "Ada Lovelace",
  "Call.status": "ENDED",
  "CallDetail.status": "ENDED",
  "Session.id": "0199b0c1-5f6e-7d10-b1aa-7e2f9c4d8a03",
  accessToken: "eyJhbGciOiJIUzI1NiJ9…",
  action: "api_key.created",
  activeParticipants: 12,
  activeRooms: 3,
  actorEmail: "ada@example.com",
  actorName: "backend",
  actorId: "0199b0bf-2c3d-7e4f-8a5b-6c7d8e9f0a1b",
  allowedOrigins: ["https://app.example.com"],
  at: TIME,
  audioOnly: false,
  bytes: 412_000_000,
  attachmentId: "att_8Hs2kV5pQ1zN7wC4xJ9mT6bR",
  authorizationUrl: "https://accounts.example.com/authorize?client_id=…",
  body: '{"id":"evt_…","type":"message.created"}',
  callerId: "ada",
  callId: "call_5Zk9wN3qT7rC1mX8bH4vJ6pD",
  "Call.id": "call_5Zk9wN3qT7rC1mX8bH4vJ6pD",
  "CallDetail.id": "call_5Zk9wN3qT7rC1mX8bH4vJ6pD",
  clientMessageId: "c0ffee-1",
  clientTrackId: "camera-1",
  code: "SVC_ROOM_NOT_FOUND",
  codec: "VP8",
  connectionId: "tab-7f3a",
  conversationId: "conv_2Jw7rX4nL9kD1sV6tH8qP3mZ",
  conversations: ["conv_2Jw7rX4nL9kD1sV6tH8qP3mZ"],
  count: 2,
  createdAt: TIME,
  currentPassword: "correct horse battery",
  cursor: "WyIyMDI2LTAzLTAxIl0",
  date: "2026-03-01",
  description: "Daily video calls",
  durationMs: HOUR_MS,
  emoji: "👍",
  endedAt: LATER,
  endpoint: "wss://rtc.example.com/v1/rtc",
  "ChatToken.endpoint": "wss://rtc.example.com/v1/chat/ws",
  email: "ada@example.com",
  epoch: "e1",
  error: "no HTTP response",
  eventId: EVENT_ID,
  eventType: "message.created",
  expiresAt: LATER,
  expiresIn: 3600,
  field: "name",
  filename: "plan.pdf",
  from: "ada",
  height: 720,
  hostIdentity: "ada",
  identity: "ada",
  id: ROOM,
  internalUrl: "http://10.0.0.2:7000",
  invitedBy: "ada@example.com",
  ipAddress: "203.0.113.7",
  key: "svk_dev_4f9Kd2Lm8Qx7Zb1P.…",
  kind: "video",
  language: "en",
  lastMessageAt: TIME,
  lastReadMessageId: "msg_4Tq8mZ1xW7cK2rB9nF6dY3sL",
  limit: 50,
  message: "There is no such room.",
  messageId: "msg_4Tq8mZ1xW7cK2rB9nF6dY3sL",
  mid: "0",
  mimeType: "application/pdf",
  name: "standup",
  newPassword: "a longer correct horse",
  nextCursor: "WyIyMDI2LTAyLTI4Il0",
  minutes: 120,
  participantCount: 2,
  peakParticipants: 2,
  password: "correct horse battery",
  participantIdentity: "ada",
  path: "/v1/rooms/unknown",
  payload: '{"raised":true}',
  periodStart: "2026-03-01T00:00:00.000Z",
  "TelemetryEvent.data": { rttMs: 32 },
  projectId: PROJECT,
  projectName: "Example",
  providers: ["google"],
  publicHost: "203.0.113.10",
  publicId: "4f9Kd2Lm8Qx7Zb1P",
  "AuditEntry.publicId": "aud_3Vn8wY5kX1qT7mC2zG9rL6bJ",
  publish: true,
  reason: "left",
  reporterId: "grace",
  reportId: "rep_5Lw8sG2jX7zQ4nV1kB6mT9cP",
  region: "eu",
  requestId: "req_9f86d081884c7d659a2feaa0",
  resourceId: ROOM,
  resourceType: "api_key",
  retryAfterMs: 500,
  retryAfterSeconds: 30,
  role: "MEMBER",
  room: "standup-chat",
  roomId: ROOM,
  roomName: "standup",
  toRoomId: "0199b0c6-9a21-7c04-8e55-1d7a2b9f4c63",
  toRoomName: "breakout",
  publicKey: "BAswVXqfxOkOM1h9osfsETZbgKXK7xQ5XoOozfIXPGGGq9D1Gj9kia7T-B1CZ4yx1vsgRWqPtNn-I0htkrfcASY",
  scopes: ["chat:read", "chat:send"],
  sdk: "stoa-js/0.2.0+5c1d9e7",
  secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
  senderId: "ada",
  senderName: "Ada Lovelace",
  seq: 42,
  serverName: "local",
  servers: ["local", "frankfurt"],
  sessionId: "0199b0c1-5f6e-7d10-b1aa-7e2f9c4d8a03",
  sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
  since: TIME,
  size: 48213,
  source: "camera",
  startedAt: TIME,
  state: "CONNECTED",
  status: "ok",
  streamId: "stream_6Pd3bM8vK1yT5gR9jW2nX7cQ",
  tags: ["release"],
  text: "Shall we begin?",
  thumbnailUrl: "https://app.example.com/launch.png",
  title: "Launch day",
  token: "eyJhbGciOiJIUzI1NiJ9…",
  tokenId: "0199b0c2-7a8b-7c9d-8e0f-1a2b3c4d5e6f",
  topic: "hands",
  trackId: "tr_5k2m9q",
  ttlSeconds: 600,
  updatedAt: TIME,
  uploadUrl: "https://rtc.example.com/v1/storage/att_8Hs2kV5pQ1zN7wC4xJ9mT6bR?expires=…&signature=…",
  uploaderId: "ada",
  url: "https://app.example.com/hooks/stoa",
  "DownloadUrl.url": "https://rtc.example.com/v1/storage/att_8Hs2kV5pQ1zN7wC4xJ9mT6bR?expires=…&signature=…",
  userAgent: "Mozilla/5.0",
  userId: "ada",
  userIds: ["ada", "grace"],
  urls: ["turns:turn.example.com:443"],
  uuid: "0199b0c7-1234-7abc-8def-0123456789ab",
  visibility: "PUBLIC",
  width: 1280,
  version: "0.2.0+5c1d9e7",
};

/** The names of records in fields for which the schema has no name. */
const RECORD_OF: Record<string, string> = {
  attachment: "Attachment",
  files: "RecordingFile",
  message: "Message",
  recording: "Recording",
  ring: "Ring",
};

/** By event type, how the records in the example of the event differ from the other examples. */
const EVENTS: Record<string, (data: Record<string, Json>) => Json> = {
  "message.updated": ({ message }) => ({
    message: { ...message, edited: true, editedAt: LATER, updatedAt: LATER },
  }),
  "message.deleted": () => ({ deletedAt: LATER, deletedBy: "ada" }),
  "call.participant_joined": () => ({ name: "Ada Lovelace" }),
  "lobby.knocked": () => ({ name: "Ada Lovelace" }),
  "call.ringing": ({ ring }) => ({ ring: { ...ring, expiresAt: RING_EXPIRES } }),
  "call.ring_ended": ({ ring }) => ({
    ring: {
      ...ring,
      status: "ANSWERED",
      members: [{ userId: "grace", status: "ANSWERED" }],
      expiresAt: RING_EXPIRES,
      endedAt: RING_ANSWERED,
    },
  }),
  "recording.started": ({ recording }) => ({
    recording: { ...recording, status: "RECORDING", endedAt: null, durationMs: 0, bytes: 0, files: [] },
  }),
  "recording.failed": ({ recording }) => ({
    recording: { ...recording, status: "FAILED", error: "The disk is full." },
  }),
};

/** The example of an event's `data`. */
export function exampleOfEvent(type: string, data: Json, resolve: Resolve): Json {
  const example = exampleOf(data, resolve) as Record<string, Json>;
  return { ...example, ...EVENTS[type]?.(example) };
}

/** The latest time in an example, at which the described event occurred. */
function lastTime(example: unknown): string {
  return timesIn(example).toSorted().at(-1) ?? TIME;
}

function timesIn(example: unknown): string[] {
  if (typeof example !== "object" || example === null) return [];
  return Object.entries(example).flatMap(([name, value]) =>
    /(?<!expires)At$|^at$/.test(name) && typeof value === "string" ? [value] : timesIn(value),
  );
}

/** Optional fields that would only clutter a first example. */
const OMITTED = new Set(["mid", "resume", "metadata", "retentionDays", "replyTo", "clientSentAt", "sdpDeflate"]);

/**
 * An example of a schema: its own example, else the known value of the field, else the simplest value that the schema
 * allows. A test validates each example against its schema.
 */
export function exampleOf(schema: Json, resolve: Resolve, field = "", record = ""): unknown {
  if (schema.$ref !== undefined) {
    const ref = String(schema.$ref);
    return exampleOf(resolve(ref), resolve, field, ref.slice(ref.lastIndexOf("/") + 1));
  }
  const [own] = Array.isArray(schema.examples) ? schema.examples : [];
  if (own !== undefined) return own;
  if (schema.const !== undefined) return schema.const;
  if (Array.isArray(schema.allOf)) {
    return Object.assign({}, ...schema.allOf.map((part: Json) => exampleOf(part, resolve, field, record)));
  }
  const known = knownValue(schema, field, record);
  if (known !== undefined) return known;
  if (allowsNull(schema)) return null;
  if (Array.isArray(schema.enum)) return schema.enum[0];
  if (Array.isArray(schema.anyOf)) {
    return exampleOf((schema.anyOf[0] ?? {}) as Json, resolve, field, record);
  }
  const [type] = [schema.type].flat();
  if (type === "object" || schema.properties) return exampleOfObject(schema, resolve, record);
  if (type === "array") {
    const items = schema.items as Json | undefined;
    return items === undefined ? [] : [exampleOf(items, resolve, field, record)];
  }
  if (type === "integer" || type === "number")
    return Math.max(Number(schema.minimum ?? 0), Number(schema.default ?? 0));
  if (type === "boolean") return schema.default ?? false;
  if (type === "string") return schema.format === "date-time" ? TIME : "text";
  return type === "null" ? null : {};
}

const allowsNull = ({ type, anyOf }: Json): boolean =>
  [type].flat().includes("null") || (Array.isArray(anyOf) && anyOf.some((variant: Json) => variant.type === "null"));

function exampleOfObject(schema: Json, resolve: Resolve, record: string): Json {
  const required = (schema.required ?? []) as string[];
  const included = Object.entries((schema.properties ?? {}) as Record<string, Json>).filter(
    ([name]) => required.includes(name) || !OMITTED.has(name),
  );
  const example = Object.fromEntries(
    included.map(([name, item]) => [name, exampleOf(item, resolve, name, RECORD_OF[name] ?? record)]),
  );
  const { type, data } = (schema.properties ?? {}) as Record<string, Json | undefined>;
  if (data === undefined || !(String(type?.const) in WEBHOOK_MEANINGS)) return example;
  const told = exampleOfEvent(String(type?.const), data, resolve);
  return { ...example, id: EVENT_ID, createdAt: lastTime(told), data: told };
}

/** The known value of the field, if the schema accepts it. */
function knownValue(schema: Json, field: string, record: string): unknown {
  const own = FIELDS[`${record}.${field}`];
  if (own === null && allowsNull(schema)) return null;
  const value = own ?? FIELDS[field];
  if (value === undefined) return undefined;
  const types = [schema.type ?? (schema.anyOf as Json[] | undefined)?.map(({ type }) => type)].flat(2);
  const type = Array.isArray(value) ? "array" : typeof value;
  const fitsType = types.includes(type) || (type === "number" && types.includes("integer"));
  if (!fitsType) return undefined;
  if (Array.isArray(schema.enum)) return schema.enum.includes(value) ? value : undefined;
  const constants = ((schema.anyOf ?? []) as Json[]).flatMap((variant): unknown[] => [variant.const ?? []].flat());
  if (constants.length > 0) return constants.includes(value) ? value : undefined;
  if (schema.pattern !== undefined && !new RegExp(String(schema.pattern)).test(String(value))) return undefined;
  if (own === undefined && Array.isArray(value) && (schema.items as Json | undefined)?.properties) return undefined;
  return value;
}
