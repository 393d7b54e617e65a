import type { Api, ChatToken, Conversation, Permissions, Room, RtcToken } from "./api.ts";
import { StoaApiError } from "./request.ts";

export type JoinInput = {
  /** Name or id; a room of this name is made when there is none. */
  room: string;
  /** Who: identity in the room, and user of the chat. */
  user: string;
  /** Everything that is not moderation unless given: see, hear, speak, show, and data. */
  permissions?: Partial<Permissions>;
  /** What others are told of the participant. */
  metadata?: string;
  /** How long both tokens let somebody in; the server's own default unless given. */
  ttlSeconds?: number;
};

export type Join = { room: Room; rtc: RtcToken; conversation: Conversation; chat: ChatToken };

const ROOM_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const EVERYTHING = { subscribe: true, publish: true, publishData: true };

export async function mintJoin(
  api: Api,
  { room: name, user, permissions, metadata, ttlSeconds }: JoinInput,
): Promise<Join> {
  const room = await roomOf(api, name);
  const [rtc, conversation] = await Promise.all([
    api.rtcTokens.mint(room.id, {
      participantIdentity: user,
      permissions: { ...EVERYTHING, ...permissions },
      metadata,
      ttlSeconds,
    }),
    conversationOf(api, room, user),
  ]);
  const chat = await api.chatTokens.mint({ userId: user, conversations: [conversation.id], ttlSeconds });
  return { room, rtc, conversation, chat };
}

async function roomOf(api: Api, name: string): Promise<Room> {
  if (ROOM_ID.test(name)) return api.rooms.get(name);
  const known = () => api.rooms.get(name).catch(unless("SVC_ROOM_NOT_FOUND"));
  // Made by somebody else between the question and the answer, or closed in between: the second round knows.
  for (let round = 0; ; round++) {
    const room =
      (await known()) ?? (await api.rooms.create({ name }).catch(round === 0 ? unless("SVC_CONFLICT") : thrown));
    if (room) return room;
  }
}

async function conversationOf(api: Api, room: Room, userId: string): Promise<Conversation> {
  const members = [{ userId }];
  const known = await api.conversations.get(room.id).catch(unless("SVC_CONVERSATION_NOT_FOUND"));
  if (known) return joined(api, known, userId);
  // Its name may belong to the conversation of a room that is closed by now.
  for (const name of [room.name, room.id.replace(/^/, "room-")]) {
    const made = await api.conversations
      .create({ name, type: "ROOM", roomId: room.id, members })
      .catch(unless("SVC_CONFLICT"));
    if (made) return made;
    const twin = await api.conversations.get(room.id).catch(unless("SVC_CONVERSATION_NOT_FOUND"));
    if (twin) return joined(api, twin, userId);
  }
  throw new Error(`the conversation of ${room.name} could neither be found nor made`);
}

async function joined(api: Api, conversation: Conversation, userId: string): Promise<Conversation> {
  await api.conversations.addMember(conversation.id, { userId });
  return conversation;
}

function thrown(error: unknown): never {
  throw error;
}

const codeOf = (error: unknown) => (error instanceof StoaApiError ? error.code : null);

const unless =
  (code: string) =>
  (error: unknown): null => {
    if (codeOf(error) === code) return null;
    throw error;
  };
