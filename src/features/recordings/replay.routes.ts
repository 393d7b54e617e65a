import { Elysia, t } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { sharedRoutes } from "../../kernel/http/shared-routes.ts";
import { MintViewToken, Replay, ViewUrl } from "./recording.schema.ts";
import type { Recordings } from "./recordings.ts";
import { timelinePage, timelineQuery } from "./timeline-page.ts";

/** Links to replays, and the replay itself. */
export const replayRoutes = (http: Http, recordings: Recordings) => (app: Elysia) =>
  app.use(linkRoutes(http, recordings)).use(openRoutes(http, recordings));

const linkRoutes = (http: Http, recordings: Recordings) =>
  sharedRoutes(http, { prefix: "/recordings/:recordingId/view-tokens", tag: "recordings" }, (app, { route }) =>
    app.post(
      "",
      (context) =>
        http.idempotency.mint(context, () => {
          const { scope, params, body, info, author } = context;
          const row = recordings.find(scope, params.recordingId);
          return recordings.replays.share(row, body.ttlSeconds, info.publicUrl, author);
        }),
      {
        ...route("recordings:manage", "A link to the replay of a recording", [
          "SVC_RECORDING_NOT_FOUND",
          "SVC_IDEMPOTENCY_KEY_REUSED",
          "SVC_IDEMPOTENCY_IN_PROGRESS",
        ]),
        body: MintViewToken,
        response: { 201: ViewUrl },
      },
    ),
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
