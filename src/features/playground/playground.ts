import type { Unit } from "../../kernel/db/writer.ts";
import { NEWEST } from "../../kernel/http/serving/pages.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { NetworkProfile, PlaygroundMode } from "../../protocol/playground.ts";
import type { ChatService } from "../chat/chat.ts";
import type { StreamGrant } from "../live-streams/admission.service.ts";
import type { LiveStreamRow } from "../live-streams/live-stream.table.ts";
import type { LiveStreams } from "../live-streams/live-streams.ts";
import type { LiveRooms } from "../rooms/live-rooms.ts";
import type { RoomService } from "../rooms/room.service.ts";
import type { RtcTokenService } from "../rooms/rtc-token.service.ts";

type PlaygroundDeps = {
  rooms: RoomService;
  rtcTokens: RtcTokenService;
  chat: ChatService;
  liveStreams: LiveStreams;
  liveRooms: LiveRooms;
};

type PlaygroundJoin = { room: string; identity: string; mode: PlaygroundMode };

/** The credentials are stored, but not signed yet. */
type PlaygroundGrant = PlaygroundJoin &
  Pick<StreamGrant, "rtc" | "chat"> & { conversationId: string; stream: LiveStreamRow | null };

const ALL_PERMISSIONS = { publish: true, publishData: true };
/** Long enough that no token expires while a developer tries things out. */
const TTL_SECONDS = 6 * 3600;
const MAX_STREAMS_SEARCHED = 200;

export type PlaygroundService = ReturnType<typeof createPlayground>;

/**
 * Acts as the backend of the playground's page, in the project for which `stoa dev` enables it. Without `stoa dev` the
 * playground is disabled.
 */
export function createPlayground({ ids }: Runtime, deps: PlaygroundDeps) {
  const { rooms, rtcTokens, chat, liveStreams, liveRooms } = deps;
  const { streams, admissions } = liveStreams;
  let openProjectId: string | null = null;

  function tenant() {
    if (openProjectId === null) throw new ApiError("SVC_ROUTE_NOT_FOUND");
    return { projectId: openProjectId, environment: "DEVELOPMENT" as const };
  }

  function call(unit: Unit, { room: name, identity }: PlaygroundJoin) {
    const owner = tenant();
    const room = rooms.findByName(owner, name) ?? rooms.create(unit, owner, { name });
    const conversation =
      chat.conversations.resolve(owner, room.id) ??
      chat.conversations.create(unit, owner, { name: `playground-${room.id}`, roomId: room.id });
    if (chat.members.find(conversation.id, identity)?.status !== "ACTIVE") {
      chat.members.add(unit, conversation.id, { userId: identity });
    }
    return {
      rtc: rtcTokens.mint(
        unit,
        { ...owner, roomId: room.id },
        { participantIdentity: identity, permissions: ALL_PERMISSIONS, ttlSeconds: TTL_SECONDS },
      ),
      chat: chat.tokens.mint(unit, owner, {
        userId: identity,
        conversations: [conversation.id],
        ttlSeconds: TTL_SECONDS,
      }),
      conversationId: conversation.publicId,
      stream: null,
    };
  }

  function openStream(title: string): LiveStreamRow | undefined {
    return streams
      .list(tenant(), NEWEST, MAX_STREAMS_SEARCHED)
      .find((stream) => stream.title === title && stream.status !== "ENDED");
  }

  function broadcast(unit: Unit, { room: title, identity, mode }: PlaygroundJoin) {
    const owner = tenant();
    // The first viewer creates the stream too, so that tabs can be opened in any order.
    const hostIdentity = mode === "host" ? identity : "host";
    const stream = openStream(title) ?? streams.create(unit, owner, { title, hostIdentity });
    const ref = { ...owner, streamId: stream.publicId };
    const { rtc, chat: grant } =
      mode === "host" ? admissions.admitHost(unit, ref, identity) : admissions.admitViewer(unit, ref, identity);
    return { rtc, chat: grant, conversationId: stream.conversationPublicId, stream };
  }

  return {
    /** Every client that can reach this server may then join rooms of the project's development environment. */
    openFor(projectId: string): void {
      openProjectId = projectId;
    },

    requireOpen: () => void tenant(),

    join(unit: Unit, input: Omit<PlaygroundJoin, "identity"> & { identity?: string }): PlaygroundGrant {
      const join = { ...input, identity: input.identity ?? `guest-${ids.uuid().slice(-4)}` };
      return { ...join, ...(join.mode === "call" ? call(unit, join) : broadcast(unit, join)) };
    },

    async sign({ mode, identity, rtc, chat: grant, conversationId, stream }: PlaygroundGrant, publicUrl: string) {
      const [room, conversation] = await Promise.all([
        rtcTokens.sign(rtc, publicUrl),
        chat.tokens.sign(grant, publicUrl),
      ]);
      return {
        mode,
        identity,
        rtc: { endpoint: room.endpoint, token: room.token, roomId: room.roomId },
        chat: { endpoint: conversation.endpoint, token: conversation.token },
        conversationId,
        ...(stream ? { streamId: stream.publicId, streamStatus: stream.status } : {}),
      };
    },

    moveStream(unit: Unit, streamId: string, action: "start" | "end"): LiveStreamRow {
      return streams[action](unit, { ...tenant(), streamId });
    },

    async setNetwork(roomId: string, identity: string, profile: NetworkProfile): Promise<void> {
      const { id } = rooms.find({ ...tenant(), roomId });
      await liveRooms.setNetwork(id, identity, profile);
    },
  };
}
