import { iso } from "../../kernel/time/clock.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Environment, LiveStreamStatus, LiveStreamVisibility } from "../../protocol/enums.ts";
import { ApiError, invalid } from "../../protocol/errors.ts";
import type { WebhookEventData } from "../../protocol/webhook-events.ts";
import type { ChatService } from "../chat/chat.ts";
import { emptyAsNull } from "../chat/input.ts";
import type { RoomService } from "../rooms/room.service.ts";
import type { WebhookEvent } from "../webhooks/events.ts";
import type { LiveStreamStore, StreamChange } from "./live-stream.store.ts";
import type { LiveStreamRow } from "./live-stream.table.ts";
import type { PeopleStore } from "./participant.store.ts";

/** What describes a stream; PATCH takes all of it. */
type StreamDescription = {
  title?: string;
  description?: string | null;
  thumbnailUrl?: string | null;
  category?: string | null;
  tags?: string[];
  language?: string | null;
  visibility?: LiveStreamVisibility;
  metadata?: Record<string, unknown> | null;
};
type NewStream = StreamDescription & {
  title: string;
  hostIdentity: string;
  scheduledAt?: string | null;
  record?: boolean;
};

/** A stream as someone of this project sees it. Without `environment` (a session, by id) either one is found. */
export type StreamRef = { projectId: string; environment?: Environment; streamId: string };

type LiveStreamDeps = {
  store: LiveStreamStore;
  people: PeopleStore;
  rooms: RoomService;
  chat: ChatService;
};

const METADATA_MAX_BYTES = 4096;

export type LiveStreamService = ReturnType<typeof liveStreamService>;

type StreamEvent = Extract<keyof WebhookEventData, `live_stream.${string}`>;

export function liveStreamService({ bus, ids, now }: Runtime, { store, people, rooms, chat }: LiveStreamDeps) {
  function find({ projectId, environment, streamId }: StreamRef): LiveStreamRow {
    const row = store.find(streamId);
    const theirs = row?.projectId === projectId && (environment === undefined || row.environment === environment);
    if (!row || !theirs) throw new ApiError("SVC_STREAM_NOT_FOUND");
    return row;
  }

  function announce<T extends StreamEvent>(
    unit: Unit,
    stream: LiveStreamRow,
    type: T,
    at: number,
    data: WebhookEventData[T],
  ): void {
    const { projectId, environment } = stream;
    bus.publish(unit, "webhook", { type, projectId, environment, at, data } as Extract<WebhookEvent, { type: T }>);
  }

  /** `from` is the only state that `to` can be reached from. */
  function move(
    unit: Unit,
    ref: StreamRef,
    from: LiveStreamStatus,
    to: LiveStreamStatus,
    change: StreamChange,
  ): LiveStreamRow {
    const stream = find(ref);
    if (stream.status !== from) throw invalidState(stream.status);
    const moved = { ...stream, ...change, status: to, updatedAt: now() };
    store.update(unit, stream.id, { ...change, status: to, updatedAt: moved.updatedAt });
    bus.publish(unit, "streamChanged", { streamId: stream.publicId, roomId: stream.roomId, status: to });
    return moved;
  }

  return {
    find,
    /** Of a room that was made for one. */
    ofRoom: store.ofRoom,
    list: store.list,
    hosts: (stream: LiveStreamRow) =>
      people.hosts(stream.id).map(({ identity, role, addedAt }) => ({ identity, role, addedAt: iso(addedAt) })),

    /** Mints are possible while a stream is yet to come or on air. */
    findOpen(ref: StreamRef): LiveStreamRow {
      const stream = find(ref);
      if (stream.status === "ENDED") throw invalidState(stream.status);
      return stream;
    },

    announce,

    /** Room, conversation and host with it: all of them, or none. */
    create(unit: Unit, owner: { projectId: string; environment: Environment }, input: NewStream): LiveStreamRow {
      const { projectId, environment } = owner;
      const at = now();
      const publicId = ids.publicId("stream");
      const { record = false } = input;
      const room = rooms.create(unit, { projectId, environment }, { name: publicId, record });
      const conversation = chat.conversations.create(
        unit,
        { projectId, environment },
        { name: publicId, roomId: room.id, members: [{ userId: input.hostIdentity, role: "MODERATOR" }] },
      );
      const stream: LiveStreamRow = {
        id: ids.uuid(),
        publicId,
        projectId,
        environment,
        roomId: room.id,
        conversationId: conversation.id,
        conversationPublicId: conversation.publicId,
        hostIdentity: input.hostIdentity,
        title: input.title,
        description: null,
        thumbnailUrl: null,
        category: null,
        tags: [],
        language: null,
        visibility: "PUBLIC",
        metadata: null,
        ...described(input),
        status: "CREATED",
        peakViewerCount: 0,
        scheduledAt: input.scheduledAt ? Date.parse(input.scheduledAt) : null,
        startedAt: null,
        endedAt: null,
        createdAt: at,
        updatedAt: at,
      };
      store.insert(unit, stream);
      people.saveHost(unit, {
        streamId: stream.id,
        identity: input.hostIdentity,
        role: "HOST",
        chatTokens: [],
        addedAt: at,
        removedAt: null,
      });
      const { title, visibility, hostIdentity } = stream;
      announce(unit, stream, "live_stream.created", at, {
        streamId: publicId,
        title,
        visibility,
        hostIdentity,
        createdAt: iso(at),
      });
      return stream;
    },

    update(unit: Unit, ref: StreamRef, input: StreamDescription): LiveStreamRow {
      const stream = find(ref);
      const change = described(input);
      if (Object.keys(change).length === 0) return stream;
      const updated = { ...stream, ...change, updatedAt: now() };
      store.update(unit, stream.id, { ...change, updatedAt: updated.updatedAt });
      return updated;
    },

    start(unit: Unit, ref: StreamRef): LiveStreamRow {
      const startedAt = now();
      const stream = move(unit, ref, "CREATED", "LIVE", { startedAt });
      announce(unit, stream, "live_stream.started", startedAt, {
        streamId: stream.publicId,
        startedAt: iso(startedAt),
      });
      return stream;
    },

    /** For good: the room is closed, and everyone in it told why. */
    end(unit: Unit, ref: StreamRef): LiveStreamRow {
      const endedAt = now();
      const stream = move(unit, ref, "LIVE", "ENDED", { endedAt });
      rooms.close(unit, stream, "stream_ended");
      const durationMs = stream.startedAt === null ? null : endedAt - stream.startedAt;
      announce(unit, stream, "live_stream.ended", endedAt, {
        streamId: stream.publicId,
        endedAt: iso(endedAt),
        durationMs,
      });
      return stream;
    },
  };
}

function invalidState(status: LiveStreamStatus): ApiError {
  return new ApiError("SVC_STREAM_INVALID_STATE", `The live stream is ${status}.`, { status });
}

/** The fields given, as they are stored: an empty string is none. */
function described(input: StreamDescription): StreamChange {
  const change: StreamChange = {};
  if (input.title !== undefined) change.title = input.title;
  if (input.description !== undefined) change.description = emptyAsNull(input.description);
  if (input.thumbnailUrl !== undefined) change.thumbnailUrl = emptyAsNull(input.thumbnailUrl);
  if (input.category !== undefined) change.category = emptyAsNull(input.category);
  if (input.tags !== undefined) change.tags = input.tags;
  if (input.language !== undefined) change.language = emptyAsNull(input.language);
  if (input.visibility !== undefined) change.visibility = input.visibility;
  if (input.metadata !== undefined) change.metadata = checkedMetadata(input.metadata);
  return change;
}

function checkedMetadata(metadata: Record<string, unknown> | null): Record<string, unknown> | null {
  if (metadata !== null && Buffer.byteLength(JSON.stringify(metadata)) > METADATA_MAX_BYTES) {
    throw invalid("metadata", `must have at most ${METADATA_MAX_BYTES} bytes as JSON`);
  }
  return metadata;
}
