import { Elysia, t } from "elysia";
import { authorOf, authorOfKey } from "../../../kernel/http/callers.ts";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import { EnvironmentQuery, Identity } from "../../../kernel/http/schema.ts";
import { NEWEST_BY_ID, page, pageQuery } from "../../../kernel/http/serving/pages.ts";
import { memberRoute } from "../../../kernel/http/shared-routes.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import { Report, type ReportStatus as Status } from "../../../protocol/chat-records.ts";
import { actingUser } from "../access.ts";
import { NamedUser } from "../chat.schema.ts";
import type { ChatService } from "../chat.ts";
import { Block, ReportMessage, ReportStatus, ResolveReport, WordList } from "./moderation.schema.ts";
import type { ReportRow } from "./moderation.table.ts";
import type { ReportService } from "./report.service.ts";

const BLOCKED_USER = t.Object({ blockedUserId: Identity });

function reportPages(reports: ReportService, tenant: Tenant, status: Status | undefined) {
  return {
    name: "reports",
    start: NEWEST_BY_ID,
    read: ([before]: [string], limit: number) => reports.list(tenant, status, before, limit),
    position: ({ id }: ReportRow): [string] => [id],
    show: reports.present,
  };
}

/** Routes of users for reporting messages and blocking other users. */
const userRoutes = ({ guards }: Http, { write }: Runtime, { access, blocks, budgets, reports }: ChatService) =>
  new Elysia({ prefix: "/v1/chat", tags: ["chat: moderation"] })
    .use(guards.chat)
    .post(
      "/messages/:messageId/reports",
      async ({ caller, params, body, set }) => {
        budgets.report(caller);
        const { report, isNew } = await write((unit) => {
          const found = access.message(caller, params.messageId, "chat:read");
          return reports.report(unit, found, actingUser(found.access, body.userId), body);
        });
        set.status = isNew ? 201 : 200;
        return report;
      },
      {
        ...documented("Report a message to the moderators; once per user", [
          "SVC_MESSAGE_NOT_FOUND",
          "SVC_MESSAGE_DELETED",
          "SVC_PERMISSION_DENIED",
          "SVC_RATE_LIMITED",
        ]),
        body: ReportMessage,
        response: { 200: Report, 201: Report },
      },
    )
    .get(
      "/blocks",
      (context) => {
        const { caller, query } = context;
        access.requireAllConversations(caller, "chat:read");
        const userId = actingUser(caller, query.userId);
        return page(context, query, {
          name: "blocks",
          start: [""] as [string],
          read: ([after], limit) => blocks.list(caller, userId, after, limit),
          position: (row) => [row.blockedUserId],
          show: blocks.present,
        });
      },
      {
        ...documented("Users whom a user has blocked, by user id", ["SVC_PERMISSION_DENIED", "SVC_INVALID_CURSOR"]),
        query: t.Object({ ...pageQuery, ...NamedUser.properties }),
        response: { 200: t.Array(Block) },
      },
    )
    .put(
      "/blocks/:blockedUserId",
      async ({ caller, params, query, set }) => {
        budgets.report(caller);
        access.requireAllConversations(caller, "chat:send");
        const userId = actingUser(caller, query.userId);
        const { row, isNew } = await write((unit) => blocks.block(unit, caller, userId, params.blockedUserId));
        set.status = isNew ? 201 : 200;
        return blocks.present(row);
      },
      {
        ...documented(
          "Block a user",
          ["SVC_PERMISSION_DENIED", "SVC_LIMIT_REACHED", "SVC_RATE_LIMITED"],
          "Their direct messages are refused, and their mentions, rings and pushes do not reach the user. They are not notified.",
        ),
        params: BLOCKED_USER,
        query: NamedUser,
        response: { 200: Block, 201: Block },
      },
    )
    .delete(
      "/blocks/:blockedUserId",
      async ({ caller, params, query, set }) => {
        budgets.report(caller);
        access.requireAllConversations(caller, "chat:send");
        const userId = actingUser(caller, query.userId);
        await write((unit) => blocks.unblock(unit, caller, userId, params.blockedUserId));
        set.status = 204;
      },
      {
        ...documented("Unblock a user", ["SVC_PERMISSION_DENIED", "SVC_RATE_LIMITED"]),
        params: BLOCKED_USER,
        query: NamedUser,
      },
    );

const serverRoutes = ({ guards }: Http, { write }: Runtime, { reports, wordLists }: ChatService) =>
  new Elysia({ prefix: "/v1/chat", tags: ["chat: moderation"] })
    .use(guards.apiKey)
    .get(
      "/reports",
      (context) => {
        const { status, ...pageRequest } = context.query;
        return page(context, pageRequest, reportPages(reports, context.caller, status));
      },
      {
        ...documented("Reported messages, newest report first", ["SVC_INVALID_CURSOR"]),
        query: t.Object({ ...pageQuery, status: t.Optional(ReportStatus) }),
        response: { 200: t.Array(Report) },
      },
    )
    .get("/reports/:reportId", ({ caller, params }) => reports.present(reports.find(caller, params.reportId)), {
      ...documented("One report, with the message in its current state", ["SVC_REPORT_NOT_FOUND"]),
      response: { 200: Report },
    })
    .post(
      "/reports/:reportId/resolve",
      (context) => {
        const { caller, params, body } = context;
        return write((unit) => reports.resolve(unit, caller, params.reportId, body, authorOfKey(context)));
      },
      {
        ...documented(
          "Resolve a report, and all others of the same message",
          ["SVC_REPORT_NOT_FOUND", "SVC_MEMBER_NOT_FOUND", "SVC_CONFLICT", "SVC_CONVERSATION_ARCHIVED"],
          "`none` dismisses it; the others delete the message, or mute or ban its sender in that conversation.",
        ),
        body: ResolveReport,
        response: { 200: Report },
      },
    )
    .get("/word-list", ({ caller }) => wordLists.get(caller), {
      ...documented("Words that are refused, masked or reported", []),
      response: { 200: WordList },
    })
    .put(
      "/word-list",
      (context) => write((unit) => wordLists.put(unit, context.caller, context.body, authorOfKey(context))),
      {
        ...documented(
          "Replace the word list",
          [],
          "Whole words and phrases, regardless of case; at most 1,000 together. They hold for every message with a sender from now on.",
        ),
        body: WordList,
        response: { 200: WordList },
      },
    );

export const moderationRoutes = (http: Http, runtime: Runtime, chat: ChatService) =>
  new Elysia().use(userRoutes(http, runtime, chat)).use(serverRoutes(http, runtime, chat));

/**
 * Routes of the dashboard for reports and the word list. Only these routes show the text of messages in the dashboard.
 */
export const moderationDashboardRoutes = ({ guards }: Http, { write }: Runtime, { reports, wordLists }: ChatService) =>
  new Elysia({ prefix: "/v1/projects/:projectId/chat", tags: ["chat: dashboard"] })
    .use(guards.member)
    .get(
      "/reports",
      (context) => {
        const { status, environment: _, ...pageRequest } = context.query;
        return page(context, pageRequest, reportPages(reports, context, status));
      },
      {
        ...memberRoute("chat:moderate", "Reported messages, newest report first", ["SVC_INVALID_CURSOR"]),
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
        ...memberRoute("chat:moderate", "Resolve a report, and all others of the same message", [
          "SVC_REPORT_NOT_FOUND",
          "SVC_MEMBER_NOT_FOUND",
          "SVC_CONFLICT",
          "SVC_CONVERSATION_ARCHIVED",
        ]),
        query: t.Object(EnvironmentQuery),
        body: ResolveReport,
        response: { 200: Report },
      },
    )
    .get("/word-list", (context) => wordLists.get(context), {
      ...memberRoute("chat:moderate", "Words that are refused, masked or reported"),
      query: t.Object(EnvironmentQuery),
      response: { 200: WordList },
    })
    .put("/word-list", (context) => write((unit) => wordLists.put(unit, context, context.body, authorOf(context))), {
      ...memberRoute("chat:moderate", "Replace the word list", ["SVC_CONFLICT"]),
      query: t.Object(EnvironmentQuery),
      body: WordList,
      response: { 200: WordList },
    });
