import { Elysia, t } from "elysia";
import type { Author } from "../../kernel/author.ts";
import { type ApiKeyCaller, authorOf, authorOfKey } from "../../kernel/http/callers.ts";
import { permit } from "../../kernel/http/guards.ts";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { EnvironmentQuery } from "../../kernel/http/schema.ts";
import { NEWEST_BY_ID, type PageRequest, page, pageQuery } from "../../kernel/http/serving/pages.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { iso } from "../../kernel/time/clock.ts";
import type { ErrorCode } from "../../protocol/errors.ts";
import {
  CreateStream,
  LiveStream,
  LiveStreamWithHosts,
  Status,
  UpdateStream,
  Visibility,
} from "./live-stream.schema.ts";
import type { LiveStreamService, StreamRef } from "./live-stream.service.ts";
import type { StreamList } from "./live-stream.store.ts";
import type { LiveStreamRow } from "./live-stream.table.ts";
import type { LiveStreams } from "./live-streams.ts";

type Services = { liveStreams: LiveStreams };
type PageContext = Parameters<typeof page>[0] & { query: PageRequest & Pick<StreamList, "visibility" | "status"> };

const filterQuery = { visibility: t.Optional(Visibility), status: t.Optional(Status) };

function presentStream(row: LiveStreamRow, viewerCount: number | null) {
  return {
    id: row.publicId,
    title: row.title,
    description: row.description,
    thumbnailUrl: row.thumbnailUrl,
    category: row.category,
    tags: row.tags,
    language: row.language,
    visibility: row.visibility,
    metadata: row.metadata,
    status: row.status,
    hostIdentity: row.hostIdentity,
    roomId: row.roomId,
    conversationId: row.conversationPublicId,
    viewerCount,
    peakViewerCount: Math.max(row.peakViewerCount, viewerCount ?? 0),
    scheduledAt: iso(row.scheduledAt),
    startedAt: iso(row.startedAt),
    endedAt: iso(row.endedAt),
    createdAt: iso(row.createdAt),
    updatedAt: iso(row.updatedAt),
  };
}

/** The handlers of the routes of both guards, which differ only in how the project is found. */
function streamHandlers({ write }: Runtime, { liveStreams: { streams, counts } }: Services) {
  const presentWithCount = (stream: LiveStreamRow) => presentStream(stream, counts.of(stream));
  return {
    list(context: PageContext, { projectId, environment }: Pick<StreamList, "projectId" | "environment">) {
      const { visibility, status } = context.query;
      const filter = { projectId, environment, visibility, status };
      const rows = page<[string], LiveStreamRow, LiveStreamRow>(context, context.query, {
        name: "live-streams",
        start: NEWEST_BY_ID,
        read: ([before], limit) => streams.list(filter, before, limit),
        position: (row) => [row.id],
        show: (row) => row,
      });
      return rows.map(presentWithCount);
    },
    find: (ref: StreamRef) => presentWithCount(streams.find(ref)),
    update: async (ref: StreamRef, input: Parameters<LiveStreamService["update"]>[2], author: Author) =>
      presentWithCount(await write((unit) => streams.update(unit, ref, input, author))),
    start: async (ref: StreamRef, author: Author) =>
      presentWithCount(await write((unit) => streams.start(unit, ref, author))),
    end: async (ref: StreamRef, author: Author) =>
      presentWithCount(await write((unit) => streams.end(unit, ref, author))),
  };
}

const refOf = ({ caller, params }: { caller: ApiKeyCaller; params: { streamId: string } }): StreamRef => ({
  ...params,
  ...caller,
});

export const liveStreamRoutes = ({ guards, idempotency, rateLimit }: Http, runtime: Runtime, services: Services) => {
  const { streams } = services.liveStreams;
  const handlers = streamHandlers(runtime, services);
  return new Elysia({ prefix: "/v1/live-streams", tags: ["live streams"] })
    .use(guards.apiKey)
    .get("", (context) => handlers.list(context, context.caller), {
      ...documented("The project's live streams, newest first", ["SVC_INVALID_CURSOR"]),
      query: t.Object({ ...pageQuery, ...filterQuery }),
      response: { 200: t.Array(LiveStream) },
    })
    .post(
      "",
      (context) =>
        idempotency.create(context, (unit) => presentStream(streams.create(unit, context.caller, context.body), 0)),
      {
        ...documented(
          "Create a live stream",
          ["SVC_RATE_LIMITED", "SVC_IDEMPOTENCY_KEY_REUSED"],
          "Makes its RTC room and its conversation as well. `scheduledAt` starts nothing: call start.",
        ),
        transform: rateLimit("LIVE_STREAMS"),
        body: CreateStream,
        response: { 201: LiveStream },
      },
    )
    .get("/:streamId", ({ caller, params }) => handlers.find({ ...params, ...caller }), {
      ...documented("One live stream with its viewers now", ["SVC_STREAM_NOT_FOUND"]),
      response: { 200: LiveStream },
    })
    .patch("/:streamId", (context) => handlers.update(refOf(context), context.body, authorOfKey(context)), {
      ...documented("Update the description of a live stream, in any state", ["SVC_STREAM_NOT_FOUND"]),
      body: UpdateStream,
      response: { 200: LiveStream },
    })
    .post("/:streamId/start", (context) => handlers.start(refOf(context), authorOfKey(context)), {
      ...documented("Go live: CREATED to LIVE", ["SVC_STREAM_NOT_FOUND", "SVC_STREAM_INVALID_STATE"]),
      response: { 200: LiveStream },
    })
    .post("/:streamId/end", (context) => handlers.end(refOf(context), authorOfKey(context)), {
      ...documented("End for good: LIVE to ENDED; everyone in the room is disconnected", [
        "SVC_STREAM_NOT_FOUND",
        "SVC_STREAM_INVALID_STATE",
      ]),
      response: { 200: LiveStream },
    });
};

const READ_ERRORS: ErrorCode[] = ["SVC_PROJECT_NOT_FOUND", "SVC_STREAM_NOT_FOUND"];
const MANAGE_ERRORS: ErrorCode[] = [...READ_ERRORS, "SVC_PERMISSION_DENIED"];

export const liveStreamDashboardRoutes = ({ guards, idempotency }: Http, runtime: Runtime, services: Services) => {
  const { streams } = services.liveStreams;
  const handlers = streamHandlers(runtime, services);
  return new Elysia({ prefix: "/v1/projects/:projectId/live-streams", tags: ["live streams: dashboard"] })
    .use(guards.member)
    .get("", (context) => handlers.list(context, context), {
      ...documented("Live streams, newest first", ["SVC_PROJECT_NOT_FOUND", "SVC_INVALID_CURSOR"]),
      transform: permit("streams:read"),
      query: t.Object({ ...pageQuery, ...EnvironmentQuery, ...filterQuery }),
      response: { 200: t.Array(LiveStream) },
    })
    .post(
      "",
      (context) => idempotency.create(context, (unit) => presentStream(streams.create(unit, context, context.body), 0)),
      {
        ...documented("Create a live stream", ["SVC_PROJECT_NOT_FOUND", "SVC_PERMISSION_DENIED"]),
        transform: permit("streams:manage"),
        query: t.Object(EnvironmentQuery),
        body: CreateStream,
        response: { 201: LiveStream },
      },
    )
    .get(
      "/:streamId",
      async ({ params }) => ({ ...(await handlers.find(params)), hosts: streams.hosts(streams.find(params)) }),
      {
        ...documented("One live stream with its hosts and its viewers now", READ_ERRORS),
        transform: permit("streams:read"),
        response: { 200: LiveStreamWithHosts },
      },
    )
    .patch("/:streamId", (context) => handlers.update(context.params, context.body, authorOf(context)), {
      ...documented("Update the description of a live stream, in any state", MANAGE_ERRORS),
      transform: permit("streams:manage"),
      body: UpdateStream,
      response: { 200: LiveStream },
    })
    .post("/:streamId/start", (context) => handlers.start(context.params, authorOf(context)), {
      ...documented("Go live: CREATED to LIVE", [...MANAGE_ERRORS, "SVC_STREAM_INVALID_STATE"]),
      transform: permit("streams:manage"),
      response: { 200: LiveStream },
    })
    .post("/:streamId/end", (context) => handlers.end(context.params, authorOf(context)), {
      ...documented("End for good: LIVE to ENDED", [...MANAGE_ERRORS, "SVC_STREAM_INVALID_STATE"]),
      transform: permit("streams:manage"),
      response: { 200: LiveStream },
    });
};
