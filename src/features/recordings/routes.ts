import { Elysia, t } from "elysia";
import { authorOf, authorOfKey } from "../../kernel/http/callers.ts";
import { permit } from "../../kernel/http/guards.ts";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { EnvironmentQuery, oneOf } from "../../kernel/http/schema.ts";
import { NEWEST_BY_TIME, type PageRequest, page, pageQuery } from "../../kernel/http/serving/pages.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { RECORDING_STATUSES, type RecordingStatus } from "../../protocol/enums.ts";
import { Recording } from "../../protocol/recordings.ts";
import { RoomReference } from "../rooms/room.schema.ts";
import type { RoomService } from "../rooms/room.service.ts";
import { downloadResponse } from "../storage/download.ts";
import { compositionRoutes } from "./composition.routes.ts";
import { hlsRoutes } from "./hls/hls.routes.ts";
import { RecordingUrl, StartRecording, TimelineEntry } from "./recording.schema.ts";
import type { RecordingRow } from "./recording.table.ts";
import type { Recordings } from "./recordings.ts";
import { replayRoutes } from "./replay.routes.ts";
import { TIMELINE_PAGE, timelinePage, timelineQuery } from "./timeline-page.ts";

const recordingQuery = {
  ...pageQuery,
  roomId: t.Optional(RoomReference),
  status: t.Optional(oneOf(RECORDING_STATUSES)),
};
type Services = { recordings: Recordings; rooms: RoomService };

const TIMELINE = "What happened while it ran, in order";
const START_ERRORS = ["SVC_ROOM_NOT_FOUND", "SVC_ROOM_CLOSED", "SVC_CONFLICT", "SVC_STORAGE_FULL"] as const;

const list = (
  { recordings, rooms }: Services,
  context: Parameters<typeof page>[0],
  tenant: Tenant,
  query: PageRequest & { roomId?: string; status?: RecordingStatus },
) => {
  const roomId = rooms.idForFilter(tenant, query.roomId);
  return page<[number, string], RecordingRow, ReturnType<Recordings["present"]>>(context, query, {
    name: "recordings",
    start: NEWEST_BY_TIME,
    read: ([startedAt, id], limit) =>
      recordings.list(tenant, { roomId, status: query.status }, { startedAt, id }, limit),
    position: (row) => [row.startedAt, row.id],
    show: recordings.present,
  });
};

const keyRoutes = ({ guards, idempotency }: Http, { recordings, rooms }: Services) =>
  new Elysia({ prefix: "/v1", tags: ["recordings"] })
    .use(guards.apiKey)
    .post(
      "/rooms/:id/recordings",
      async (context) => {
        const { caller, params, body } = context;
        const { id: roomId } = rooms.find({ ...caller, roomId: params.id });
        await recordings.requireSpace(caller.projectId);
        return idempotency.create(context, (unit) => {
          const room = rooms.findActive({ ...caller, roomId });
          return recordings.present(recordings.begin(unit, room, body, authorOfKey(context)));
        });
      },
      {
        ...documented("Record a room; an empty one from its first packet on", [...START_ERRORS]),
        body: StartRecording,
        response: { 201: Recording },
      },
    )
    .get("/recordings", (context) => list({ recordings, rooms }, context, context.caller, context.query), {
      ...documented("Recordings, newest first", ["SVC_ROOM_NOT_FOUND", "SVC_INVALID_CURSOR"]),
      query: t.Object(recordingQuery),
      response: { 200: t.Array(Recording) },
    })
    .get(
      "/recordings/:recordingId",
      ({ caller, params }) => recordings.present(recordings.find(caller, params.recordingId)),
      {
        ...documented("A recording with its files", ["SVC_RECORDING_NOT_FOUND"]),
        response: { 200: Recording },
      },
    )
    .post(
      "/recordings/:recordingId/stop",
      async (context) => {
        const { caller, params, set } = context;
        set.status = 200;
        return recordings.present(await recordings.stop(caller, params.recordingId, authorOfKey(context)));
      },
      {
        ...documented("Stop a recording; answers when its files are complete", ["SVC_RECORDING_NOT_FOUND"]),
        response: { 200: Recording },
      },
    )
    .delete(
      "/recordings/:recordingId",
      async (context) => {
        await recordings.remove(context.caller, context.params.recordingId, authorOfKey(context));
        context.set.status = 204;
      },
      documented("Delete a recording and its files; one that runs is stopped first", ["SVC_RECORDING_NOT_FOUND"]),
    )
    .get(
      "/recordings/:recordingId/files/:fileId/download-url",
      ({ caller, params, info }) => recordings.downloadUrl(caller, params.recordingId, params.fileId, info.publicUrl),
      {
        ...documented("A short-lived address of one file", ["SVC_RECORDING_NOT_FOUND", "SVC_RECORDING_FILE_NOT_FOUND"]),
        response: { 200: RecordingUrl },
      },
    )
    .get(
      "/recordings/:recordingId/timeline",
      (context) => {
        const row = recordings.find(context.caller, context.params.recordingId);
        return timelinePage(recordings.timeline, context, row, { texts: true });
      },
      {
        ...documented(TIMELINE, ["SVC_RECORDING_NOT_FOUND", "SVC_INVALID_CURSOR"], TIMELINE_PAGE),
        query: t.Object(timelineQuery),
        response: { 200: t.Array(TimelineEntry) },
      },
    );

const dashboardRoutes = ({ guards, idempotency }: Http, { recordings, rooms }: Services) =>
  new Elysia({ prefix: "/v1/projects/:projectId", tags: ["recordings: dashboard"] })
    .use(guards.member)
    .post(
      "/rooms/:roomId/recordings",
      async (context) => {
        const { projectId, environment, params, body } = context;
        const ref = { projectId, namesIn: environment, roomId: params.roomId };
        rooms.findActive(ref);
        await recordings.requireSpace(projectId);
        return idempotency.create(context, (unit) =>
          recordings.present(recordings.begin(unit, rooms.findActive(ref), body, authorOf(context))),
        );
      },
      {
        ...documented("Record a room", ["SVC_PROJECT_NOT_FOUND", "SVC_PERMISSION_DENIED", ...START_ERRORS]),
        transform: permit("recordings:manage"),
        body: StartRecording,
        response: { 201: Recording },
      },
    )
    .get("/recordings", (context) => list({ recordings, rooms }, context, context, context.query), {
      ...documented("Recordings, newest first", ["SVC_PROJECT_NOT_FOUND", "SVC_ROOM_NOT_FOUND", "SVC_INVALID_CURSOR"]),
      transform: permit("recordings:read"),
      query: t.Object({ ...recordingQuery, ...EnvironmentQuery }),
      response: { 200: t.Array(Recording) },
    })
    .get(
      "/recordings/:recordingId",
      ({ projectId, params }) => recordings.present(recordings.find({ projectId }, params.recordingId)),
      {
        ...documented("A recording with its files", ["SVC_PROJECT_NOT_FOUND", "SVC_RECORDING_NOT_FOUND"]),
        transform: permit("recordings:read"),
        response: { 200: Recording },
      },
    )
    .post(
      "/recordings/:recordingId/stop",
      async (context) => {
        const { projectId, params, set } = context;
        set.status = 200;
        return recordings.present(await recordings.stop({ projectId }, params.recordingId, authorOf(context)));
      },
      {
        ...documented("Stop a recording", [
          "SVC_PROJECT_NOT_FOUND",
          "SVC_PERMISSION_DENIED",
          "SVC_RECORDING_NOT_FOUND",
        ]),
        transform: permit("recordings:manage"),
        response: { 200: Recording },
      },
    )
    .delete(
      "/recordings/:recordingId",
      async (context) => {
        const { projectId, params, set } = context;
        await recordings.remove({ projectId }, params.recordingId, authorOf(context));
        set.status = 204;
      },
      {
        ...documented("Delete a recording and its files", [
          "SVC_PROJECT_NOT_FOUND",
          "SVC_PERMISSION_DENIED",
          "SVC_RECORDING_NOT_FOUND",
        ]),
        transform: permit("recordings:manage"),
      },
    )
    .get(
      "/recordings/:recordingId/files/:fileId/download-url",
      ({ projectId, params, info }) =>
        recordings.downloadUrl({ projectId }, params.recordingId, params.fileId, info.publicUrl),
      {
        ...documented("A short-lived address of one file", [
          "SVC_PROJECT_NOT_FOUND",
          "SVC_PERMISSION_DENIED",
          "SVC_RECORDING_NOT_FOUND",
          "SVC_RECORDING_FILE_NOT_FOUND",
        ]),
        transform: permit("recordings:manage"),
        response: { 200: RecordingUrl },
      },
    )
    .get(
      "/recordings/:recordingId/timeline",
      (context) => {
        const row = recordings.find({ projectId: context.projectId }, context.params.recordingId);
        return timelinePage(recordings.timeline, context, row, { texts: false });
      },
      {
        ...documented(
          TIMELINE,
          ["SVC_PROJECT_NOT_FOUND", "SVC_RECORDING_NOT_FOUND", "SVC_INVALID_CURSOR"],
          TIMELINE_PAGE,
        ),
        transform: permit("recordings:read"),
        query: t.Object(timelineQuery),
        response: { 200: t.Array(TimelineEntry) },
      },
    );

/** The routes of signed URLs of files: the signature is the credential. */
const fileRoutes = ({ guards }: Http, { now }: Runtime, { recordings }: Services) => {
  const read = async (request: Request, fileId: string, set: Parameters<typeof downloadResponse>[1]) => {
    const { url, ...download } = await recordings.open(fileId, new URL(request.url).searchParams);
    // A signed URL of the bucket is for GET only, so this server answers HEAD.
    if (url === null || request.method === "HEAD") return downloadResponse(request, set, download, now());
    set.status = 307;
    return new Response(null, { status: 307, headers: { location: url, "cache-control": "no-store" } });
  };
  return new Elysia({ prefix: "/v1/recording-files", tags: ["recordings"] })
    .use(guards.open)
    .get("/:fileId", ({ request, params, set }) => read(request, params.fileId, set), {
      ...documented(
        "Read a file of a recording from its download address",
        [
          "SVC_PERMISSION_DENIED",
          "SVC_RECORDING_FILE_NOT_FOUND",
          "SVC_RANGE_NOT_SATISFIABLE",
          "SVC_STORAGE_UNAVAILABLE",
        ],
        undefined,
        { 200: "application/octet-stream", 206: "application/octet-stream", 304: null, 307: null },
      ),
    })
    .head("/:fileId", ({ request, params, set }) => read(request, params.fileId, set), { detail: { hide: true } });
};

export const recordingsRoutes = (http: Http, runtime: Runtime, services: Services) => (app: Elysia) =>
  app
    .use(keyRoutes(http, services))
    .use(dashboardRoutes(http, services))
    .use(fileRoutes(http, runtime, services))
    .use(compositionRoutes(http, services.recordings))
    .use(replayRoutes(http, services.recordings))
    .use(hlsRoutes(http, services.recordings.hls));
