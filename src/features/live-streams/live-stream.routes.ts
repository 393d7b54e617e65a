import type { Static } from "@sinclair/typebox";
import { t } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import { NEWEST_BY_ID, page, pageQuery } from "../../kernel/http/serving/pages.ts";
import { sharedRoutes } from "../../kernel/http/shared-routes.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { iso } from "../../kernel/time/clock.ts";
import {
  CreateStream,
  LiveStream,
  LiveStreamWithHosts,
  Status,
  UpdateStream,
  Visibility,
} from "./live-stream.schema.ts";
import type { LiveStreamRow } from "./live-stream.table.ts";
import type { LiveStreams } from "./live-streams.ts";

type Services = { liveStreams: LiveStreams };

/** The dashboard's client is typed by the routes, so the type of one stream is that of members. */
type Detail = Static<typeof LiveStreamWithHosts>;

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

export const liveStreamRoutes = (http: Http, { write }: Runtime, { liveStreams: { streams, counts } }: Services) =>
  sharedRoutes(
    http,
    { prefix: "/live-streams", tag: "live streams" },
    (app, { route, pick, environmentQuery, inEnvironment }) => {
      const presentWithCount = (stream: LiveStreamRow) => presentStream(stream, counts.of(stream));
      return app
        .get(
          "",
          (context) => {
            const { projectId, environment } = context.tenant;
            const { visibility, status } = context.query;
            const rows = page(context, context.query, {
              name: "live-streams",
              start: NEWEST_BY_ID,
              read: ([before], limit) => streams.list({ projectId, environment, visibility, status }, before, limit),
              position: (row) => [row.id],
              show: (row) => row,
            });
            return rows.map(presentWithCount);
          },
          {
            ...route("streams:read", pick("The project's live streams, newest first", "Live streams, newest first"), [
              "SVC_INVALID_CURSOR",
            ]),
            query: t.Object({
              ...pageQuery,
              ...environmentQuery,
              visibility: t.Optional(Visibility),
              status: t.Optional(Status),
            }),
            response: { 200: t.Array(LiveStream) },
          },
        )
        .post(
          "",
          (context) =>
            http.idempotency.create(context, (unit) =>
              presentStream(streams.create(unit, context.tenant, context.body), 0),
            ),
          {
            ...pick(
              route("streams:manage", "Create a live stream", ["SVC_RATE_LIMITED", "SVC_IDEMPOTENCY_KEY_REUSED"], {
                description:
                  "Makes its RTC room and its conversation as well. `scheduledAt` starts nothing: call start.",
                rateLimit: http.rateLimit("LIVE_STREAMS"),
              }),
              route("streams:manage", "Create a live stream"),
            ),
            ...inEnvironment,
            body: CreateStream,
            response: { 201: LiveStream },
          },
        )
        .get(
          "/:streamId",
          ({ scope, params }) => {
            const stream = streams.find({ ...params, ...scope });
            const shown = presentWithCount(stream);
            return pick(shown as Detail, { ...shown, hosts: streams.hosts(stream) });
          },
          {
            ...route(
              "streams:read",
              pick("One live stream with its viewers now", "One live stream with its hosts and its viewers now"),
              ["SVC_STREAM_NOT_FOUND"],
            ),
            response: { 200: pick(LiveStream as unknown as typeof LiveStreamWithHosts, LiveStreamWithHosts) },
          },
        )
        .patch(
          "/:streamId",
          async ({ scope, params, body, author }) =>
            presentWithCount(await write((unit) => streams.update(unit, { ...params, ...scope }, body, author))),
          {
            ...route("streams:manage", "Update the description of a live stream, in any state", [
              "SVC_STREAM_NOT_FOUND",
            ]),
            body: UpdateStream,
            response: { 200: LiveStream },
          },
        )
        .post(
          "/:streamId/start",
          async ({ scope, params, author }) =>
            presentWithCount(await write((unit) => streams.start(unit, { ...params, ...scope }, author))),
          {
            ...route("streams:manage", "Go live: CREATED to LIVE", [
              "SVC_STREAM_NOT_FOUND",
              "SVC_STREAM_INVALID_STATE",
            ]),
            response: { 200: LiveStream },
          },
        )
        .post(
          "/:streamId/end",
          async ({ scope, params, author }) =>
            presentWithCount(await write((unit) => streams.end(unit, { ...params, ...scope }, author))),
          {
            ...route(
              "streams:manage",
              pick("End for good: LIVE to ENDED; everyone in the room is disconnected", "End for good: LIVE to ENDED"),
              ["SVC_STREAM_NOT_FOUND", "SVC_STREAM_INVALID_STATE"],
            ),
            response: { 200: LiveStream },
          },
        );
    },
  );
