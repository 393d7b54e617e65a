import { Elysia, t } from "elysia";
import { authorOf, authorOfKey } from "../../kernel/http/callers.ts";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { oneOf } from "../../kernel/http/schema.ts";
import { longPage, NEWEST_BY_TIME, type PageRequest, pageQuery } from "../../kernel/http/serving/pages.ts";
import { memberRoute, sharedRoutes } from "../../kernel/http/shared-routes.ts";
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
/** A recording is listed with its files, which may be thousands. */
const LIST_BYTES = 2 * 1024 * 1024;

const START_ERRORS = ["SVC_ROOM_NOT_FOUND", "SVC_ROOM_CLOSED", "SVC_CONFLICT", "SVC_STORAGE_FULL"] as const;

const list = (
  { recordings, rooms }: Services,
  context: Parameters<typeof longPage>[0],
  tenant: Tenant,
  query: PageRequest & { roomId?: string; status?: RecordingStatus },
) => {
  const roomId = rooms.idForFilter(tenant, query.roomId);
  return longPage<[number, string], RecordingRow, ReturnType<Recordings["present"]>>(context, query, {
    name: "recordings",
    start: NEWEST_BY_TIME,
    maxBytes: LIST_BYTES,
    read: ([startedAt, id], limit) =>
      recordings.list(tenant, { roomId, status: query.status }, { startedAt, id }, limit),
    position: (row) => [row.startedAt, row.id],
    show: recordings.present,
  });
};

const startByKeyRoute = ({ guards, idempotency }: Http, { recordings, rooms }: Services) =>
  new Elysia({ tags: ["recordings"] }).use(guards.apiKey).post(
    "/v1/rooms/:id/recordings",
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
  );

const startByMemberRoute = ({ guards, idempotency }: Http, { recordings, rooms }: Services) =>
  new Elysia({ tags: ["recordings: dashboard"] }).use(guards.member).post(
    "/v1/projects/:projectId/rooms/:roomId/recordings",
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
      ...memberRoute("recordings:manage", "Record a room", [...START_ERRORS]),
      body: StartRecording,
      response: { 201: Recording },
    },
  );

const recordRoutes = (http: Http, { recordings, rooms }: Services) =>
  sharedRoutes(http, { prefix: "/recordings", tag: "recordings" }, (app, { route, pick, environmentQuery }) =>
    app
      .get("", (context) => list({ recordings, rooms }, context, context.tenant, context.query), {
        ...route("recordings:read", "Recordings, newest first", ["SVC_ROOM_NOT_FOUND", "SVC_INVALID_CURSOR"]),
        query: t.Object({ ...recordingQuery, ...environmentQuery }),
        response: { 200: t.Array(Recording) },
      })
      .get("/:recordingId", ({ scope, params }) => recordings.present(recordings.find(scope, params.recordingId)), {
        ...route("recordings:read", "A recording with its files", ["SVC_RECORDING_NOT_FOUND"]),
        response: { 200: Recording },
      })
      .post(
        "/:recordingId/stop",
        async ({ scope, params, author, set }) => {
          set.status = 200;
          return recordings.present(await recordings.stop(scope, params.recordingId, author));
        },
        {
          ...route(
            "recordings:manage",
            pick("Stop a recording; answers when its files are complete", "Stop a recording"),
            ["SVC_RECORDING_NOT_FOUND"],
          ),
          response: { 200: Recording },
        },
      )
      .delete(
        "/:recordingId",
        async ({ scope, params, author, set }) => {
          await recordings.remove(scope, params.recordingId, author);
          set.status = 204;
        },
        route(
          "recordings:manage",
          pick("Delete a recording and its files; one that runs is stopped first", "Delete a recording and its files"),
          ["SVC_RECORDING_NOT_FOUND"],
        ),
      )
      .get(
        "/:recordingId/files/:fileId/download-url",
        ({ scope, params, info }) => recordings.downloadUrl(scope, params.recordingId, params.fileId, info.publicUrl),
        {
          ...route("recordings:manage", "A short-lived address of one file", [
            "SVC_RECORDING_NOT_FOUND",
            "SVC_RECORDING_FILE_NOT_FOUND",
          ]),
          response: { 200: RecordingUrl },
        },
      )
      .get(
        "/:recordingId/timeline",
        (context) => {
          const row = recordings.find(context.scope, context.params.recordingId);
          return timelinePage(recordings.timeline, context, row, { texts: pick(true, false) });
        },
        {
          ...route(
            "recordings:read",
            "What happened while it ran, in order",
            ["SVC_RECORDING_NOT_FOUND", "SVC_INVALID_CURSOR"],
            { description: TIMELINE_PAGE },
          ),
          query: t.Object(timelineQuery),
          response: { 200: t.Array(TimelineEntry) },
        },
      ),
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
    .use(startByKeyRoute(http, services))
    .use(startByMemberRoute(http, services))
    .use(recordRoutes(http, services))
    .use(fileRoutes(http, runtime, services))
    .use(compositionRoutes(http, services.recordings))
    .use(replayRoutes(http, services.recordings))
    .use(hlsRoutes(http, services.recordings.hls));
