import { Elysia, t } from "elysia";
import { authorOf } from "../../../kernel/http/callers.ts";
import { permit } from "../../../kernel/http/guards.ts";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import { EnvironmentQuery } from "../../../kernel/http/schema.ts";
import { NEWEST, page, pageQuery } from "../../../kernel/http/serving/pages.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { Report } from "../../../protocol/chat-records.ts";
import type { ChatService } from "../chat.ts";
import { ReportStatus, ResolveReport, WordList } from "./moderation.schema.ts";

/** The queue of the moderators. What somebody reported they handed over: here, and only here, its text is shown. */
export const moderationDashboardRoutes = ({ guards }: Http, { write }: Runtime, { reports, wordLists }: ChatService) =>
  new Elysia({ prefix: "/v1/projects/:projectId/chat", tags: ["chat: dashboard"] })
    .use(guards.member)
    .get(
      "/reports",
      (context) => {
        const { status, environment: _, ...asked } = context.query;
        return page(context, asked, {
          name: "reports",
          shape: ["string"],
          read: (after, limit) => reports.list(context, status, String(after?.[0] ?? NEWEST), limit),
          position: (row) => [row.id],
          show: reports.show,
        });
      },
      {
        ...documented("Reported messages, newest report first", ["SVC_PROJECT_NOT_FOUND", "SVC_INVALID_CURSOR"]),
        transform: permit("chat:moderate"),
        query: t.Object({ ...pageQuery, ...EnvironmentQuery, status: t.Optional(ReportStatus) }),
        response: { 200: t.Array(Report) },
      },
    )
    .post(
      "/reports/:reportId/resolve",
      (context) => {
        const { params, body } = context;
        return write((unit) => reports.resolve(unit, context, params.reportId, body, authorOf(context)));
      },
      {
        ...documented("Resolve a report, and all others of the same message", [
          "SVC_PROJECT_NOT_FOUND",
          "SVC_REPORT_NOT_FOUND",
          "SVC_MEMBER_NOT_FOUND",
          "SVC_CONFLICT",
          "SVC_CONVERSATION_ARCHIVED",
        ]),
        transform: permit("chat:moderate"),
        query: t.Object(EnvironmentQuery),
        body: ResolveReport,
        response: { 200: Report },
      },
    )
    .get("/word-list", (context) => wordLists.get(context), {
      ...documented("Words that are refused, masked or reported", ["SVC_PROJECT_NOT_FOUND"]),
      transform: permit("chat:moderate"),
      query: t.Object(EnvironmentQuery),
      response: { 200: WordList },
    })
    .put("/word-list", (context) => write((unit) => wordLists.put(unit, context, context.body, authorOf(context))), {
      ...documented("Replace the word list", ["SVC_PROJECT_NOT_FOUND", "SVC_CONFLICT"]),
      transform: permit("chat:moderate"),
      query: t.Object(EnvironmentQuery),
      body: WordList,
      response: { 200: WordList },
    });
