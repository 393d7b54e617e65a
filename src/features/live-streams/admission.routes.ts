import { Elysia } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { ErrorCode } from "../../protocol/errors.ts";
import { RegisterHost, StreamCredentials, Viewer } from "./live-stream.schema.ts";
import type { LiveStreams } from "./live-streams.ts";

export const MINTING: ErrorCode[] = [
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

/** Hosts and viewers: their credentials, and how they go. */
export const admissionRoutes = (
  { guards, idempotency, rateLimit }: Http,
  { write }: Runtime,
  { liveStreams: { admissions } }: { liveStreams: LiveStreams },
) =>
  new Elysia({ prefix: "/v1/live-streams/:streamId", tags: ["live streams"] })
    .use(guards.apiKey)
    .post(
      "/hosts",
      (context) =>
        idempotency.mint(context, async () => {
          const { caller, params, body, info } = context;
          const ref = { ...caller, streamId: params.streamId };
          const admission = await write((unit) => admissions.admitHost(unit, ref, body.identity, body.role));
          return admissions.sign(admission, info.publicUrl);
        }),
      {
        ...documented(
          "Register a host and mint its credentials",
          ["SVC_CONFLICT", ...MINTING],
          "The stream's own `hostIdentity` gets its credentials here too, and stays HOST; everyone else is a CO_HOST.",
        ),
        transform: rateLimit("LIVE_STREAM_HOSTS"),
        body: RegisterHost,
        response: { 201: StreamCredentials },
      },
    )
    .delete(
      "/hosts/:identity",
      async ({ caller, params, set }) => {
        await write((unit) => admissions.removeHost(unit, { ...caller, streamId: params.streamId }, params.identity));
        set.status = 204;
      },
      documented("Remove a co-host: out of room and chat at once, what they wrote stays", [
        "SVC_STREAM_NOT_FOUND",
        "SVC_HOST_NOT_FOUND",
        "SVC_CONFLICT",
        "SVC_CONVERSATION_ARCHIVED",
      ]),
    )
    .post(
      "/viewer-tokens",
      (context) =>
        idempotency.mint(context, async () => {
          const { caller, params, body, info } = context;
          const ref = { ...caller, streamId: params.streamId };
          const admission = await write((unit) => admissions.admitViewer(unit, ref, body.identity));
          return admissions.sign(admission, info.publicUrl);
        }),
      {
        ...documented(
          "Mint a viewer's credentials",
          MINTING,
          "Subscribe-only, whatever the body says. Before the start the viewer waits; media arrives once the stream is LIVE.",
        ),
        transform: rateLimit("VIEWER_TOKENS"),
        body: Viewer,
        response: { 201: StreamCredentials },
      },
    )
    .delete(
      "/viewers/:identity",
      async ({ caller, params, set }) => {
        await write((unit) => admissions.removeViewer(unit, { ...caller, streamId: params.streamId }, params.identity));
        set.status = 204;
      },
      documented("Remove and bar a viewer", [
        "SVC_STREAM_NOT_FOUND",
        "SVC_MEMBER_NOT_FOUND",
        "SVC_CONVERSATION_ARCHIVED",
      ]),
    )
    .post(
      "/leave",
      async ({ caller, params, body, set }) => {
        await write((unit) => admissions.leave(unit, { ...caller, streamId: params.streamId }, body.identity));
        set.status = 204;
      },
      { ...documented("Tell that a viewer has left", ["SVC_STREAM_NOT_FOUND"]), body: Viewer },
    );
