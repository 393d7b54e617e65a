import type { Api, ChatToken, Conversation, Permissions, Room, RtcToken } from "./api.ts";
import { StoaApiError } from "./request.ts";

export type JoinInput = {
  /** The room's name or id; a room with this name is created if there is none. */
  room: string;
  /** The participant's identity in the room and the user id in the chat. */
  user: string;
  /** The permissions; by default the participant may subscribe, publish and send data. */
  permissions?: Partial<Permissions>;
  /** The name for people to read, in the room, the chat and recordings: any text of at most 128 characters. */
  name?: string;
  /** The participant's metadata: at most 1024 characters, which every client receives. */
  metadata?: string;
  /** The participant's attributes, which every client receives. */
  attributes?: Record<string, string>;
  /** How long both tokens are valid; the server's default if omitted. */
  ttlSeconds?: number;
};

export type Join = { room: Room; rtc: RtcToken; conversation: Conversation; chat: ChatToken };

const ROOM_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const DEFAULT_PERMISSIONS = { subscribe: true, publish: true, publishData: true };

export async function mintJoin(
  api: Api,
  { room: reference, user, permissions, ttlSeconds, ...profile }: JoinInput,
): Promise<Join> {
  const room = await roomOf(api, reference);
  const [rtc, conversation] = await Promise.all([
    api.rtcTokens.mint(room.id, {
      participantIdentity: user,
      permissions: { ...DEFAULT_PERMISSIONS, ...permissions },
      ttlSeconds,
      ...profile,
    }),
    conversationOf(api, room, { userId: user, name: profile.name }),
  ]);
  const chat = await api.chatTokens.mint({ userId: user, conversations: [conversation.id], ttlSeconds });
  return { room, rtc, conversation, chat };
}

async function roomOf(api: Api, name: string): Promise<Room> {
  if (ROOM_ID.test(name)) return api.rooms.get(name);
  const known = () => api.rooms.get(name).catch(unless("SVC_ROOM_NOT_FOUND"));
  // Another caller may create or close the room between the two requests; the second round sees that.
  for (let round = 0; ; round++) {
    const room =
      (await known()) ?? (await api.rooms.create({ name }).catch(round === 0 ? unless("SVC_CONFLICT") : rethrow));
    if (room) return room;
  }
}

type Member = { userId: string; name?: string };

async function conversationOf(api: Api, room: Room, member: Member): Promise<Conversation> {
  const members = [member];
  const known = await api.conversations.get(room.id).catch(unless("SVC_CONVERSATION_NOT_FOUND"));
  if (known) return addMember(api, known, member);
  // The name may be taken by the conversation of a closed room, or be one that only rooms of LiveKit's clients have.
  for (const name of [room.name, `room-${room.id}`]) {
    const refused = name === room.name ? ["SVC_CONFLICT", "SVC_VALIDATION_FAILED"] : ["SVC_CONFLICT"];
    const created = await api.conversations
      .create({ name, type: "ROOM", roomId: room.id, members })
      .catch(unless(...refused));
    if (created) return created;
    const existing = await api.conversations.get(room.id).catch(unless("SVC_CONVERSATION_NOT_FOUND"));
    if (existing) return addMember(api, existing, member);
  }
  throw new Error(`the conversation of ${room.name} could neither be found nor created`);
}

async function addMember(api: Api, conversation: Conversation, member: Member): Promise<Conversation> {
  await api.conversations.addMember(conversation.id, member);
  return conversation;
}

function rethrow(error: unknown): never {
  throw error;
}

const codeOf = (error: unknown) => (error instanceof StoaApiError ? error.code : null);

const unless =
  (...codes: string[]) =>
  (error: unknown): null => {
    if (codes.includes(codeOf(error) ?? "")) return null;
    throw error;
  };
