import { Elysia } from "elysia";
import { permit } from "../../kernel/http/guards.ts";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { ErrorCode } from "../../protocol/errors.ts";
import { MINTING } from "./admission.routes.ts";
import { RegisterHost, StreamCredentials, Viewer } from "./live-stream.schema.ts";
import type { LiveStreams } from "./live-streams.ts";

const MANAGING: ErrorCode[] = ["SVC_PROJECT_NOT_FOUND", "SVC_PERMISSION_DENIED"];

/** Hosts and viewers from the dashboard: to try a stream out, and to send somebody away. */
export const admissionDashboardRoutes = (
  { guards, idempotency, rateLimit }: Http,
  { write }: Runtime,
  { liveStreams: { admissions } }: { liveStreams: LiveStreams },
) =>
  new Elysia({ prefix: "/v1/projects/:projectId/live-streams/:streamId", tags: ["live streams: dashboard"] })
    .use(guards.member)
    .post(
      "/hosts",
      (context) =>
        idempotency.mint(context, async () => {
          const { projectId, params, body, info } = context;
          const ref = { projectId, streamId: params.streamId };
          const admission = await write((unit) => admissions.admitHost(unit, ref, body.identity, body.role));
          return admissions.sign(admission, info.publicUrl);
        }),
      {
        ...documented("Register a host and mint its credentials", [...MANAGING, "SVC_CONFLICT", ...MINTING]),
        transform: [permit("streams:manage"), rateLimit("LIVE_STREAM_HOSTS")],
        body: RegisterHost,
        response: { 201: StreamCredentials },
      },
    )
    .delete(
      "/hosts/:identity",
      async ({ projectId, params, set }) => {
        await write((unit) => admissions.removeHost(unit, { projectId, streamId: params.streamId }, params.identity));
        set.status = 204;
      },
      {
        ...documented("Remove a co-host: out of room and chat at once, what they wrote stays", [
          ...MANAGING,
          "SVC_STREAM_NOT_FOUND",
          "SVC_HOST_NOT_FOUND",
          "SVC_CONFLICT",
          "SVC_CONVERSATION_ARCHIVED",
        ]),
        transform: permit("streams:manage"),
      },
    )
    .post(
      "/viewer-tokens",
      (context) =>
        idempotency.mint(context, async () => {
          const { projectId, params, body, info } = context;
          const ref = { projectId, streamId: params.streamId };
          const admission = await write((unit) => admissions.admitViewer(unit, ref, body.identity));
          return admissions.sign(admission, info.publicUrl);
        }),
      {
        ...documented("Mint a viewer's credentials, to watch from the dashboard", [...MANAGING, ...MINTING]),
        transform: [permit("streams:manage"), rateLimit("VIEWER_TOKENS")],
        body: Viewer,
        response: { 201: StreamCredentials },
      },
    )
    .delete(
      "/viewers/:identity",
      async ({ projectId, params, set }) => {
        await write((unit) => admissions.removeViewer(unit, { projectId, streamId: params.streamId }, params.identity));
        set.status = 204;
      },
      {
        ...documented("Remove and bar a viewer", [
          ...MANAGING,
          "SVC_STREAM_NOT_FOUND",
          "SVC_MEMBER_NOT_FOUND",
          "SVC_CONVERSATION_ARCHIVED",
        ]),
        transform: permit("streams:manage"),
      },
    );
