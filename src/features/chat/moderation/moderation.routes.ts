import { Elysia, t } from "elysia";
import { authorOfKey } from "../../../kernel/http/callers.ts";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import { Identity } from "../../../kernel/http/schema.ts";
import { NEWEST, page, pageQuery } from "../../../kernel/http/serving/pages.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { Report } from "../../../protocol/chat-records.ts";
import { invalid } from "../../../protocol/errors.ts";
import { actingUser } from "../access.ts";
import type { ChatCaller } from "../caller.ts";
import type { ChatService } from "../chat.ts";
import { given } from "../limits.ts";
import { NamedUser } from "../rest/chat.schema.ts";
import { Block, ReportMessage, ReportStatus, ResolveReport, WordList } from "./moderation.schema.ts";

/** Whose list it is: a user's own, or that of the user whom a server names. */
function ownerOf(caller: ChatCaller, named: string | undefined): string {
  if (caller.kind === "chatToken") return caller.userId;
  const userId = given(named);
  if (userId === null) throw invalid("userId", "is required with an API key");
  return userId;
}

/** What users do themselves: report a message, block somebody. */
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
        const userId = ownerOf(caller, query.userId);
        return page(context, query, {
          name: "blocks",
          shape: ["string"],
          read: (after, limit) => blocks.list(caller, userId, String(after?.[0] ?? ""), limit),
          position: (row) => [row.blockedUserId],
          show: blocks.show,
        });
      },
      {
        ...documented("Whom a user has blocked, by name", ["SVC_INVALID_CURSOR"]),
        query: t.Object({ ...pageQuery, ...NamedUser.properties }),
        response: { 200: t.Array(Block) },
      },
    )
    .put(
      "/blocks/:blockedUserId",
      async ({ caller, params, query, set }) => {
        budgets.report(caller);
        const userId = ownerOf(caller, query.userId);
        const { row, isNew } = await write((unit) => blocks.block(unit, caller, userId, params.blockedUserId));
        set.status = isNew ? 201 : 200;
        return blocks.show(row);
      },
      {
        ...documented(
          "Block somebody",
          ["SVC_LIMIT_REACHED", "SVC_RATE_LIMITED"],
          "Their direct messages are refused, and their mentions, rings and pushes do not reach the user. They are not told.",
        ),
        params: t.Object({ blockedUserId: Identity }),
        query: NamedUser,
        response: { 200: Block, 201: Block },
      },
    )
    .delete(
      "/blocks/:blockedUserId",
      async ({ caller, params, query, set }) => {
        budgets.report(caller);
        const userId = ownerOf(caller, query.userId);
        await write((unit) => blocks.unblock(unit, caller, userId, params.blockedUserId));
        set.status = 204;
      },
      {
        ...documented("Take a block back", ["SVC_RATE_LIMITED"]),
        params: t.Object({ blockedUserId: Identity }),
        query: NamedUser,
      },
    );

/** What a backend does for its project: work through the reports, keep the word list. */
const serverRoutes = ({ guards }: Http, { write }: Runtime, { reports, wordLists }: ChatService) =>
  new Elysia({ prefix: "/v1/chat", tags: ["chat: moderation"] })
    .use(guards.apiKey)
    .get(
      "/reports",
      (context) => {
        const { caller, query } = context;
        const { status, ...asked } = query;
        return page(context, asked, {
          name: "reports",
          shape: ["string"],
          read: (after, limit) => reports.list(caller, status, String(after?.[0] ?? NEWEST), limit),
          position: (row) => [row.id],
          show: reports.show,
        });
      },
      {
        ...documented("Reported messages, newest report first", ["SVC_INVALID_CURSOR"]),
        query: t.Object({ ...pageQuery, status: t.Optional(ReportStatus) }),
        response: { 200: t.Array(Report) },
      },
    )
    .get("/reports/:reportId", ({ caller, params }) => reports.show(reports.find(caller, params.reportId)), {
      ...documented("One report, with the message as it is now", ["SVC_REPORT_NOT_FOUND"]),
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
