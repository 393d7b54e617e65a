import { Elysia, t } from "elysia";
import { permit } from "../../kernel/http/guards.ts";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { EnvironmentQuery } from "../../kernel/http/schema.ts";
import { pageQuery } from "../../kernel/http/serving/pages.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { ErrorCode } from "../../protocol/errors.ts";
import {
  CreateStream,
  LiveStream,
  LiveStreamWithHosts,
  Status,
  UpdateStream,
  Visibility,
} from "./live-stream.schema.ts";
import { presentStream, streamPage } from "./live-stream.show.ts";
import type { LiveStreams } from "./live-streams.ts";

const READING: ErrorCode[] = ["SVC_PROJECT_NOT_FOUND", "SVC_STREAM_NOT_FOUND"];
const MANAGING: ErrorCode[] = [...READING, "SVC_PERMISSION_DENIED"];

export const liveStreamDashboardRoutes = (
  { guards, idempotency }: Http,
  { write }: Runtime,
  { liveStreams }: { liveStreams: LiveStreams },
) => {
  const { streams, counts } = liveStreams;
  return new Elysia({ prefix: "/v1/projects/:projectId/live-streams", tags: ["live streams: dashboard"] })
    .use(guards.member)
    .get(
      "",
      (context) => {
        const { projectId, environment, query } = context;
        const { visibility, status } = query;
        return streamPage(context, query, liveStreams, { projectId, environment, visibility, status });
      },
      {
        ...documented("Live streams, newest first", ["SVC_PROJECT_NOT_FOUND", "SVC_INVALID_CURSOR"]),
        transform: permit("streams:read"),
        query: t.Object({
          ...pageQuery,
          ...EnvironmentQuery,
          visibility: t.Optional(Visibility),
          status: t.Optional(Status),
        }),
        response: { 200: t.Array(LiveStream) },
      },
    )
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
      async ({ projectId, params }) => {
        const stream = streams.find({ projectId, streamId: params.streamId });
        return { ...presentStream(stream, await counts.of(stream)), hosts: streams.hosts(stream) };
      },
      {
        ...documented("One live stream with its hosts and its viewers now", READING),
        transform: permit("streams:read"),
        response: { 200: LiveStreamWithHosts },
      },
    )
    .patch(
      "/:streamId",
      async ({ projectId, params, body }) => {
        const stream = await write((unit) => streams.update(unit, { projectId, streamId: params.streamId }, body));
        return presentStream(stream, await counts.of(stream));
      },
      {
        ...documented("Change what describes a live stream, in any state", MANAGING),
        transform: permit("streams:manage"),
        body: UpdateStream,
        response: { 200: LiveStream },
      },
    )
    .post(
      "/:streamId/start",
      async ({ projectId, params }) => {
        const stream = await write((unit) => streams.start(unit, { projectId, streamId: params.streamId }));
        return presentStream(stream, await counts.of(stream));
      },
      {
        ...documented("Go live: CREATED to LIVE", [...MANAGING, "SVC_STREAM_INVALID_STATE"]),
        transform: permit("streams:manage"),
        response: { 200: LiveStream },
      },
    )
    .post(
      "/:streamId/end",
      async ({ projectId, params }) => {
        const stream = await write((unit) => streams.end(unit, { projectId, streamId: params.streamId }));
        return presentStream(stream, await counts.of(stream));
      },
      {
        ...documented("End for good: LIVE to ENDED", [...MANAGING, "SVC_STREAM_INVALID_STATE"]),
        transform: permit("streams:manage"),
        response: { 200: LiveStream },
      },
    );
};
