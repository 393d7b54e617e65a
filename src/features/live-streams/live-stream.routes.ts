import { Elysia, t } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { pageQuery } from "../../kernel/http/serving/pages.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { CreateStream, LiveStream, Status, UpdateStream, Visibility } from "./live-stream.schema.ts";
import { presentStream, streamPage } from "./live-stream.show.ts";
import type { LiveStreams } from "./live-streams.ts";

export const liveStreamRoutes = (
  { guards, idempotency, rateLimit }: Http,
  { write }: Runtime,
  { liveStreams }: { liveStreams: LiveStreams },
) => {
  const { streams, counts } = liveStreams;
  return new Elysia({ prefix: "/v1/live-streams", tags: ["live streams"] })
    .use(guards.apiKey)
    .get(
      "",
      (context) => {
        const { visibility, status } = context.query;
        const { projectId, environment } = context.caller;
        return streamPage(context, context.query, liveStreams, { projectId, environment, visibility, status });
      },
      {
        ...documented("The project's live streams, newest first", ["SVC_INVALID_CURSOR"]),
        query: t.Object({ ...pageQuery, visibility: t.Optional(Visibility), status: t.Optional(Status) }),
        response: { 200: t.Array(LiveStream) },
      },
    )
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
    .get(
      "/:streamId",
      async ({ caller, params }) => {
        const stream = streams.find({ ...caller, streamId: params.streamId });
        return presentStream(stream, await counts.of(stream));
      },
      {
        ...documented("One live stream with its viewers now", ["SVC_STREAM_NOT_FOUND"]),
        response: { 200: LiveStream },
      },
    )
    .patch(
      "/:streamId",
      async ({ caller, params, body }) => {
        const stream = await write((unit) => streams.update(unit, { ...caller, streamId: params.streamId }, body));
        return presentStream(stream, await counts.of(stream));
      },
      {
        ...documented("Change what describes a live stream, in any state", ["SVC_STREAM_NOT_FOUND"]),
        body: UpdateStream,
        response: { 200: LiveStream },
      },
    )
    .post(
      "/:streamId/start",
      async ({ caller, params }) => {
        const stream = await write((unit) => streams.start(unit, { ...caller, streamId: params.streamId }));
        return presentStream(stream, await counts.of(stream));
      },
      {
        ...documented("Go live: CREATED to LIVE", ["SVC_STREAM_NOT_FOUND", "SVC_STREAM_INVALID_STATE"]),
        response: { 200: LiveStream },
      },
    )
    .post(
      "/:streamId/end",
      async ({ caller, params }) => {
        const stream = await write((unit) => streams.end(unit, { ...caller, streamId: params.streamId }));
        return presentStream(stream, await counts.of(stream));
      },
      {
        ...documented("End for good: LIVE to ENDED; everyone in the room is disconnected", [
          "SVC_STREAM_NOT_FOUND",
          "SVC_STREAM_INVALID_STATE",
        ]),
        response: { 200: LiveStream },
      },
    );
};
