import { Elysia } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { sharedRoutes } from "../../kernel/http/shared-routes.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { ErrorCode } from "../../protocol/errors.ts";
import { RegisterHost, StreamCredentials, Viewer } from "./live-stream.schema.ts";
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

/** Hosts and viewers of a live stream: their credentials and their removal. */
export const admissionRoutes = (http: Http, { write }: Runtime, { liveStreams: { admissions } }: Services) =>
  sharedRoutes(http, { prefix: "/live-streams/:streamId", tag: "live streams" }, (app, { route, pick }) =>
    app
      .post(
        "/hosts",
        (context) =>
          http.idempotency.mint(context, async () => {
            const { scope, params, body, info } = context;
            // Credentials that backends mint are not audited.
            const author = pick(null, context.author);
            const grant = await write((unit) =>
              admissions.admitHost(unit, { ...params, ...scope }, body.identity, body.role, author),
            );
            return admissions.sign(grant, info.publicUrl);
          }),
        {
          ...route("streams:manage", "Register a host and mint its credentials", ["SVC_CONFLICT", ...MINT_ERRORS], {
            description: pick(
              "The stream's own `hostIdentity` gets its credentials here too, and stays HOST; everyone else is a CO_HOST.",
              undefined,
            ),
            rateLimit: http.rateLimit("LIVE_STREAM_HOSTS"),
          }),
          body: RegisterHost,
          response: { 201: StreamCredentials },
        },
      )
      .delete(
        "/hosts/:identity",
        async ({ scope, params, author, set }) => {
          await write((unit) => admissions.removeHost(unit, { ...params, ...scope }, params.identity, author));
          set.status = 204;
        },
        route("streams:manage", "Remove a co-host from room and chat at once; their messages stay", [
          "SVC_STREAM_NOT_FOUND",
          "SVC_HOST_NOT_FOUND",
          "SVC_CONFLICT",
          "SVC_CONVERSATION_ARCHIVED",
        ]),
      )
      .post(
        "/viewer-tokens",
        (context) =>
          http.idempotency.mint(context, async () => {
            const { scope, params, body, info } = context;
            const author = pick(null, context.author);
            const grant = await write((unit) =>
              admissions.admitViewer(unit, { ...params, ...scope }, body.identity, author),
            );
            return admissions.sign(grant, info.publicUrl);
          }),
        {
          ...route(
            "streams:manage",
            pick("Mint a viewer's credentials", "Mint a viewer's credentials, to watch from the dashboard"),
            MINT_ERRORS,
            {
              description: pick(
                "Subscribe-only, whatever the body says. Before the start the viewer waits; media arrives once the stream is LIVE.",
                undefined,
              ),
              rateLimit: http.rateLimit("VIEWER_TOKENS"),
            },
          ),
          body: Viewer,
          response: { 201: StreamCredentials },
        },
      )
      .delete(
        "/viewers/:identity",
        async ({ scope, params, author, set }) => {
          await write((unit) => admissions.removeViewer(unit, { ...params, ...scope }, params.identity, author));
          set.status = 204;
        },
        route("streams:manage", "Remove and bar a viewer", [
          "SVC_STREAM_NOT_FOUND",
          "SVC_MEMBER_NOT_FOUND",
          "SVC_CONVERSATION_ARCHIVED",
        ]),
      ),
  );

export const leaveRoute = ({ guards }: Http, { write }: Runtime, { liveStreams: { admissions } }: Services) =>
  new Elysia({ prefix: "/v1/live-streams/:streamId", tags: ["live streams"] }).use(guards.apiKey).post(
    "/leave",
    async ({ caller, params, body, set }) => {
      await write((unit) => admissions.leave(unit, { ...params, ...caller }, body.identity));
      set.status = 204;
    },
    { ...documented("Report that a viewer has left", ["SVC_STREAM_NOT_FOUND"]), body: Viewer },
  );
