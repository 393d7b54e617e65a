import { type Author, COMMAND_LINE } from "../../kernel/author.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { iso } from "../../kernel/time/clock.ts";
import type { Environment, LiveStreamStatus } from "../../protocol/enums.ts";
import { ApiError, invalid } from "../../protocol/errors.ts";
import type { WebhookEventData } from "../../protocol/webhook-payloads.ts";
import { auditTrail } from "../audit/audit-trail.ts";
import type { ChatService } from "../chat/chat.ts";
import { emptyAsNull } from "../chat/input.ts";
import type { RoomService } from "../rooms/room.service.ts";
import type { WebhookEvent } from "../webhooks/events.ts";
import type { CreateStream, UpdateStream } from "./live-stream.schema.ts";
import type { LiveStreamStore, StreamChange } from "./live-stream.store.ts";
import type { LiveStreamRow } from "./live-stream.table.ts";

/** Without `environment`, as for a dashboard session, the stream is found in either environment. */
export type StreamRef = { projectId: string; environment?: Environment; streamId: string };

type LiveStreamDeps = {
  store: LiveStreamStore;
  rooms: RoomService;
  chat: ChatService;
};

const METADATA_MAX_BYTES = 4096;

export type LiveStreamService = ReturnType<typeof liveStreamService>;

type StreamEvent = Extract<keyof WebhookEventData, `live_stream.${string}`>;

export function liveStreamService({ bus, ids, now }: Runtime, { store, rooms, chat }: LiveStreamDeps) {
  function find({ projectId, environment, streamId }: StreamRef): LiveStreamRow {
    const row = store.find(streamId);
    const isTheirs = row?.projectId === projectId && (environment === undefined || row.environment === environment);
    if (!row || !isTheirs) throw new ApiError("SVC_STREAM_NOT_FOUND");
    return row;
  }

  const audit = auditTrail({ bus, now }, "live_stream", ({ publicId }: LiveStreamRow) => publicId);

  function publish<T extends StreamEvent>(
    unit: Unit,
    stream: LiveStreamRow,
    type: T,
    at: number,
    data: WebhookEventData[T],
  ): void {
    const { projectId, environment } = stream;
    bus.publish(unit, "webhook", { type, projectId, environment, at, data } as Extract<WebhookEvent, { type: T }>);
  }

  /** `from` is the only state from which `to` can be reached. */
  function move(
    unit: Unit,
    ref: StreamRef,
    from: LiveStreamStatus,
    to: LiveStreamStatus,
    times: StreamChange,
  ): LiveStreamRow {
    const stream = find(ref);
    if (stream.status !== from) throw invalidState(stream.status);
    const change = { ...times, status: to, updatedAt: now() };
    store.update(unit, stream.id, change);
    bus.publish(unit, "streamChanged", { streamId: stream.publicId, roomId: stream.roomId, status: to });
    return { ...stream, ...change };
  }

  return {
    find,
    ofRoom: store.ofRoom,
    list: store.list,
    hosts: (stream: LiveStreamRow) =>
      store.hosts(stream.id).map(({ identity, role, addedAt }) => ({ identity, role, addedAt: iso(addedAt) })),

    /** Credentials can be minted until the stream has ended. */
    findOpen(ref: StreamRef): LiveStreamRow {
      const stream = find(ref);
      if (stream.status === "ENDED") throw invalidState(stream.status);
      return stream;
    },

    publish,
    audit,

    /** Creates the room, the conversation and the host in the same unit of work. */
    create(unit: Unit, { projectId, environment }: Tenant, input: CreateStream): LiveStreamRow {
      const tenant = { projectId, environment };
      const at = now();
      const publicId = ids.publicId("stream");
      const room = rooms.create(unit, tenant, { name: publicId, record: input.record ?? false });
      const conversation = chat.conversations.create(unit, tenant, {
        name: publicId,
        roomId: room.id,
        members: [{ userId: input.hostIdentity, role: "MODERATOR" }],
      });
      const stream: LiveStreamRow = {
        id: ids.uuid(),
        publicId,
        ...tenant,
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
        ...descriptionChange(input),
        status: "CREATED",
        peakViewerCount: 0,
        scheduledAt: input.scheduledAt ? Date.parse(input.scheduledAt) : null,
        startedAt: null,
        endedAt: null,
        createdAt: at,
        updatedAt: at,
      };
      store.insert(unit, stream);
      store.saveHost(unit, {
        streamId: stream.id,
        identity: input.hostIdentity,
        role: "HOST",
        chatTokens: [],
        addedAt: at,
        removedAt: null,
      });
      const { title, visibility, hostIdentity } = stream;
      publish(unit, stream, "live_stream.created", at, {
        streamId: publicId,
        title,
        visibility,
        hostIdentity,
        createdAt: iso(at),
      });
      return stream;
    },

    update(unit: Unit, ref: StreamRef, input: UpdateStream, author: Author): LiveStreamRow {
      const stream = find(ref);
      const description = descriptionChange(input);
      if (Object.keys(description).length === 0) return stream;
      const change = { ...description, updatedAt: now() };
      store.update(unit, stream.id, change);
      audit(unit, author, "live_stream.updated", stream, { fields: Object.keys(description) });
      return { ...stream, ...change };
    },

    start(unit: Unit, ref: StreamRef, author: Author = COMMAND_LINE): LiveStreamRow {
      const startedAt = now();
      const stream = move(unit, ref, "CREATED", "LIVE", { startedAt });
      publish(unit, stream, "live_stream.started", startedAt, {
        streamId: stream.publicId,
        startedAt: iso(startedAt),
      });
      audit(unit, author, "live_stream.started", stream);
      return stream;
    },

    /** Ends the stream and closes its room; participants get the reason. */
    end(unit: Unit, ref: StreamRef, author: Author = COMMAND_LINE): LiveStreamRow {
      const endedAt = now();
      const stream = move(unit, ref, "LIVE", "ENDED", { endedAt });
      rooms.close(unit, stream, "stream_ended");
      const durationMs = stream.startedAt === null ? null : endedAt - stream.startedAt;
      publish(unit, stream, "live_stream.ended", endedAt, {
        streamId: stream.publicId,
        endedAt: iso(endedAt),
        durationMs,
      });
      audit(unit, author, "live_stream.ended", stream);
      return stream;
    },
  };
}

function invalidState(status: LiveStreamStatus): ApiError {
  return new ApiError("SVC_STREAM_INVALID_STATE", `The live stream is ${status}.`, { status });
}

/** The fields of a request in their stored form; an empty string becomes null. */
function descriptionChange(input: UpdateStream): StreamChange {
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
