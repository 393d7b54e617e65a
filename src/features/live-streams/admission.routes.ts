import { Elysia } from "elysia";
import type { Author } from "../../kernel/author.ts";
import { authorOf, authorOfKey } from "../../kernel/http/callers.ts";
import { permit } from "../../kernel/http/guards.ts";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { ErrorCode } from "../../protocol/errors.ts";
import { RegisterHost, StreamCredentials, Viewer } from "./live-stream.schema.ts";
import type { StreamRef } from "./live-stream.service.ts";
import type { LiveStreams } from "./live-streams.ts";

type Services = { liveStreams: LiveStreams };

const MINT_ERRORS: ErrorCode[] = [
  "SVC_STREAM_NOT_FOUND",
  "SVC_STREAM_INVALID_STATE",
  "SVC_ROOM_CLOSED",
  "SVC_CONVERSATION_ARCHIVED",
  "SVC_BANNED",
  "SVC_USAGE_LIMIT_EXCEEDED",
  "SVC_RATE_LIMITED",
  "SVC_IDEMPOTENCY_KEY_REUSED",
  "SVC_IDEMPOTENCY_IN_PROGRESS",
];
const REMOVE_HOST_ERRORS: ErrorCode[] = [
  "SVC_STREAM_NOT_FOUND",
  "SVC_HOST_NOT_FOUND",
  "SVC_CONFLICT",
  "SVC_CONVERSATION_ARCHIVED",
];
const REMOVE_VIEWER_ERRORS: ErrorCode[] = ["SVC_STREAM_NOT_FOUND", "SVC_MEMBER_NOT_FOUND", "SVC_CONVERSATION_ARCHIVED"];

/** The handlers of the routes of both guards, which differ only in how the project is found. */
function admissionHandlers({ write }: Runtime, { liveStreams: { admissions } }: Services) {
  return {
    /** Only a member of the project is passed as `author`; credentials that backends mint are not audited. */
    async admitHost(ref: StreamRef, body: RegisterHost, publicUrl: string, author: Author | null = null) {
      const admission = await write((unit) => admissions.admitHost(unit, ref, body.identity, body.role, author));
      return admissions.sign(admission, publicUrl);
    },
    async admitViewer(
      ref: StreamRef,
      { identity }: { identity: string },
      publicUrl: string,
      author: Author | null = null,
    ) {
      const admission = await write((unit) => admissions.admitViewer(unit, ref, identity, author));
      return admissions.sign(admission, publicUrl);
    },
    removeHost: (ref: StreamRef, identity: string, author: Author) =>
      write((unit) => admissions.removeHost(unit, ref, identity, author)),
    removeViewer: (ref: StreamRef, identity: string, author: Author) =>
      write((unit) => admissions.removeViewer(unit, ref, identity, author)),
  };
}

/** Hosts and viewers of a live stream: their credentials and their removal. */
export const admissionRoutes = ({ guards, idempotency, rateLimit }: Http, runtime: Runtime, services: Services) => {
  const handlers = admissionHandlers(runtime, services);
  return new Elysia({ prefix: "/v1/live-streams/:streamId", tags: ["live streams"] })
    .use(guards.apiKey)
    .post(
      "/hosts",
      (context) => {
        const { caller, params, body, info } = context;
        return idempotency.mint(context, () => handlers.admitHost({ ...params, ...caller }, body, info.publicUrl));
      },
      {
        ...documented(
          "Register a host and mint its credentials",
          ["SVC_CONFLICT", ...MINT_ERRORS],
          "The stream's own `hostIdentity` gets its credentials here too, and stays HOST; everyone else is a CO_HOST.",
        ),
        transform: rateLimit("LIVE_STREAM_HOSTS"),
        body: RegisterHost,
        response: { 201: StreamCredentials },
      },
    )
    .delete(
      "/hosts/:identity",
      async (context) => {
        const { caller, params } = context;
        await handlers.removeHost({ ...params, ...caller }, params.identity, authorOfKey(context));
        context.set.status = 204;
      },
      documented("Remove a co-host from room and chat at once; their messages stay", REMOVE_HOST_ERRORS),
    )
    .post(
      "/viewer-tokens",
      (context) => {
        const { caller, params, body, info } = context;
        return idempotency.mint(context, () => handlers.admitViewer({ ...params, ...caller }, body, info.publicUrl));
      },
      {
        ...documented(
          "Mint a viewer's credentials",
          MINT_ERRORS,
          "Subscribe-only, whatever the body says. Before the start the viewer waits; media arrives once the stream is LIVE.",
        ),
        transform: rateLimit("VIEWER_TOKENS"),
        body: Viewer,
        response: { 201: StreamCredentials },
      },
    )
    .delete(
      "/viewers/:identity",
      async (context) => {
        const { caller, params } = context;
        await handlers.removeViewer({ ...params, ...caller }, params.identity, authorOfKey(context));
        context.set.status = 204;
      },
      documented("Remove and bar a viewer", REMOVE_VIEWER_ERRORS),
    )
    .post(
      "/leave",
      async ({ caller, params, body, set }) => {
        const { admissions } = services.liveStreams;
        await runtime.write((unit) => admissions.leave(unit, { ...params, ...caller }, body.identity));
        set.status = 204;
      },
      { ...documented("Report that a viewer has left", ["SVC_STREAM_NOT_FOUND"]), body: Viewer },
    );
};

const MANAGE_ERRORS: ErrorCode[] = ["SVC_PROJECT_NOT_FOUND", "SVC_PERMISSION_DENIED"];

/** Routes of the dashboard for trying a stream out and for removing hosts and viewers. */
export const admissionDashboardRoutes = (
  { guards, idempotency, rateLimit }: Http,
  runtime: Runtime,
  services: Services,
) => {
  const handlers = admissionHandlers(runtime, services);
  return new Elysia({ prefix: "/v1/projects/:projectId/live-streams/:streamId", tags: ["live streams: dashboard"] })
    .use(guards.member)
    .post(
      "/hosts",
      (context) => {
        const { params, body, info } = context;
        return idempotency.mint(context, () => handlers.admitHost(params, body, info.publicUrl, authorOf(context)));
      },
      {
        ...documented("Register a host and mint its credentials", [...MANAGE_ERRORS, "SVC_CONFLICT", ...MINT_ERRORS]),
        transform: [permit("streams:manage"), rateLimit("LIVE_STREAM_HOSTS")],
        body: RegisterHost,
        response: { 201: StreamCredentials },
      },
    )
    .delete(
      "/hosts/:identity",
      async (context) => {
        await handlers.removeHost(context.params, context.params.identity, authorOf(context));
        context.set.status = 204;
      },
      {
        ...documented("Remove a co-host from room and chat at once; their messages stay", [
          ...MANAGE_ERRORS,
          ...REMOVE_HOST_ERRORS,
        ]),
        transform: permit("streams:manage"),
      },
    )
    .post(
      "/viewer-tokens",
      (context) => {
        const { params, body, info } = context;
        return idempotency.mint(context, () => handlers.admitViewer(params, body, info.publicUrl, authorOf(context)));
      },
      {
        ...documented("Mint a viewer's credentials, to watch from the dashboard", [...MANAGE_ERRORS, ...MINT_ERRORS]),
        transform: [permit("streams:manage"), rateLimit("VIEWER_TOKENS")],
        body: Viewer,
        response: { 201: StreamCredentials },
      },
    )
    .delete(
      "/viewers/:identity",
      async (context) => {
        await handlers.removeViewer(context.params, context.params.identity, authorOf(context));
        context.set.status = 204;
      },
      {
        ...documented("Remove and bar a viewer", [...MANAGE_ERRORS, ...REMOVE_VIEWER_ERRORS]),
        transform: permit("streams:manage"),
      },
    );
};
