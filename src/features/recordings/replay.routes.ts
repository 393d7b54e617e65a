import { Elysia, t } from "elysia";
import { authorOf, authorOfKey } from "../../kernel/http/callers.ts";
import { permit } from "../../kernel/http/guards.ts";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { MintViewToken, Replay, ViewUrl } from "./recording.schema.ts";
import type { Recordings } from "./recordings.ts";
import { timelinePage, timelineQuery } from "./timeline-page.ts";

const MINT_ERRORS = ["SVC_RECORDING_NOT_FOUND", "SVC_IDEMPOTENCY_KEY_REUSED", "SVC_IDEMPOTENCY_IN_PROGRESS"] as const;

/** Links to replays, and the replay itself. */
export const replayRoutes = (http: Http, recordings: Recordings) => (app: Elysia) =>
  app.use(keyRoutes(http, recordings)).use(dashboardRoutes(http, recordings)).use(openRoutes(http, recordings));

const keyRoutes = ({ guards, idempotency }: Http, recordings: Recordings) =>
  new Elysia({ prefix: "/v1/recordings", tags: ["recordings"] }).use(guards.apiKey).post(
    "/:recordingId/view-tokens",
    (context) =>
      idempotency.mint(context, () => {
        const { caller, params, body, info } = context;
        const row = recordings.find(caller, params.recordingId);
        return recordings.replays.share(row, body.ttlSeconds, info.publicUrl, authorOfKey(context));
      }),
    {
      ...documented("A link to the replay of a recording", [...MINT_ERRORS]),
      body: MintViewToken,
      response: { 201: ViewUrl },
    },
  );

const dashboardRoutes = ({ guards, idempotency }: Http, recordings: Recordings) =>
  new Elysia({ prefix: "/v1/projects/:projectId/recordings", tags: ["recordings: dashboard"] }).use(guards.member).post(
    "/:recordingId/view-tokens",
    (context) =>
      idempotency.mint(context, () => {
        const { projectId, params, body, info } = context;
        const row = recordings.find({ projectId }, params.recordingId);
        return recordings.replays.share(row, body.ttlSeconds, info.publicUrl, authorOf(context));
      }),
    {
      ...documented("A link to the replay of a recording", [
        "SVC_PROJECT_NOT_FOUND",
        "SVC_PERMISSION_DENIED",
        ...MINT_ERRORS,
      ]),
      transform: permit("recordings:manage"),
      body: MintViewToken,
      response: { 201: ViewUrl },
    },
  );

/** The token of the link is the credential. */
const openRoutes = ({ guards }: Http, recordings: Recordings) =>
  new Elysia({ prefix: "/v1/replays", tags: ["recordings"] }).use(guards.open).get(
    "/:token",
    async (context) => {
      const { row, ...replay } = recordings.replays.view(context.params.token, context.info.publicUrl);
      return { ...replay, timeline: await timelinePage(recordings.timeline, context, row, { texts: true }) };
    },
    {
      ...documented(
        "A recording with its timeline and its files, for who holds a link",
        ["SVC_PERMISSION_DENIED", "SVC_INVALID_CURSOR"],
        "Of the timeline, at most 1,000 entries and 2 MiB: `link` leads to the same with its next part.",
      ),
      params: t.Object({ token: t.String({ maxLength: 512 }) }),
      query: t.Object(timelineQuery),
      response: { 200: Replay },
    },
  );
