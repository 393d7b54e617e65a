import { Elysia } from "elysia";
import { authorOf, authorOfKey } from "../../kernel/http/callers.ts";
import { permit } from "../../kernel/http/guards.ts";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { Recording } from "../../protocol/recordings.ts";
import { ComposeRecording } from "./recording.schema.ts";
import type { Recordings } from "./recordings.ts";

const COMPOSE_ERRORS = [
  "SVC_RECORDING_NOT_FOUND",
  "SVC_CONFLICT",
  "SVC_COMPOSER_UNAVAILABLE",
  "SVC_STORAGE_FULL",
] as const;
const SUMMARY = "Compose one video of a recording; the record shows its progress";
const DISCARD = "Cancel the composition of a recording, or delete it";

export const compositionRoutes = (http: Http, recordings: Recordings) =>
  new Elysia().use(keyRoutes(http, recordings)).use(dashboardRoutes(http, recordings));

const keyRoutes = ({ guards }: Http, recordings: Recordings) =>
  new Elysia({ prefix: "/v1/recordings", tags: ["recordings"] })
    .use(guards.apiKey)
    .post(
      "/:recordingId/composition",
      async (context) => {
        const { caller, params, body } = context;
        context.set.status = 202;
        return recordings.present(await recordings.compose(caller, params.recordingId, body, authorOfKey(context)));
      },
      {
        ...documented(SUMMARY, [...COMPOSE_ERRORS]),
        body: ComposeRecording,
        response: { 202: Recording },
      },
    )
    .delete(
      "/:recordingId/composition",
      async (context) => {
        await recordings.discardComposition(context.caller, context.params.recordingId, authorOfKey(context));
        context.set.status = 204;
      },
      documented(DISCARD, ["SVC_RECORDING_NOT_FOUND"]),
    );

const dashboardRoutes = ({ guards }: Http, recordings: Recordings) =>
  new Elysia({ prefix: "/v1/projects/:projectId/recordings", tags: ["recordings: dashboard"] })
    .use(guards.member)
    .post(
      "/:recordingId/composition",
      async (context) => {
        const { projectId, params, body } = context;
        context.set.status = 202;
        return recordings.present(await recordings.compose({ projectId }, params.recordingId, body, authorOf(context)));
      },
      {
        ...documented(SUMMARY, ["SVC_PROJECT_NOT_FOUND", "SVC_PERMISSION_DENIED", ...COMPOSE_ERRORS]),
        transform: permit("recordings:manage"),
        body: ComposeRecording,
        response: { 202: Recording },
      },
    )
    .delete(
      "/:recordingId/composition",
      async (context) => {
        const { projectId, params } = context;
        await recordings.discardComposition({ projectId }, params.recordingId, authorOf(context));
        context.set.status = 204;
      },
      {
        ...documented(DISCARD, ["SVC_PROJECT_NOT_FOUND", "SVC_PERMISSION_DENIED", "SVC_RECORDING_NOT_FOUND"]),
        transform: permit("recordings:manage"),
      },
    );
