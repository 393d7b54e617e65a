import { Elysia, t } from "elysia";
import { iso } from "../../../kernel/clock.ts";
import { permit } from "../../../kernel/http/guards.ts";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import { EnvironmentQuery } from "../../../kernel/http/schema.ts";
import { NEWEST, page, pageQuery } from "../../../kernel/http/serving/pages.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { ConversationMember, Presence } from "../../../protocol/chat-records.ts";
import type { Environment } from "../../../protocol/enums.ts";
import { ApiError } from "../../../protocol/errors.ts";
import type { ChatService } from "../chat.ts";
import type { ChatConnectionRow } from "../store/connection.table.ts";
import type { ConversationRow } from "../store/conversation.table.ts";
import type { MessageRow } from "../store/message.table.ts";
import { ChatConnection, ChatOverview, ConversationSummary, MessageSummary } from "./chat.dashboard-schema.ts";
import { ConversationStatus } from "./chat.schema.ts";
import { byUser } from "./user-page.ts";

/** How chat goes, for those who run it: never what was said. */
export const chatDashboardRoutes = ({ guards }: Http, { now }: Runtime, chat: ChatService) => {
  const { conversations, live, members, messages, overview } = chat;

  function find(tenant: { projectId: string; environment: Environment }, reference: string): ConversationRow {
    const row = conversations.resolve(tenant, reference);
    if (!row) throw new ApiError("SVC_CONVERSATION_NOT_FOUND");
    return row;
  }

  const summary = (row: ConversationRow) => ({
    ...conversations.show(row),
    messageCount: row.messageCount,
    lastActivityAt: iso(Math.max(row.lastMessageAt ?? 0, row.updatedAt)),
  });

  return new Elysia({ prefix: "/v1/projects/:projectId/chat", tags: ["chat: dashboard"] })
    .use(guards.member)
    .get(
      "/overview",
      ({ projectId, environment }) => ({
        ...overview.totals({ projectId, environment }, now()),
        connections: live.connections.count(projectId, environment),
        ...overview.stored({ projectId, environment }),
      }),
      {
        ...documented("Chat activity in numbers", ["SVC_PROJECT_NOT_FOUND"]),
        transform: permit("chat:read"),
        query: t.Object(EnvironmentQuery),
        response: { 200: ChatOverview },
      },
    )
    .get(
      "/connections",
      async (context) => {
        await live.connections.flush();
        return page(context, context.query, {
          name: "chat-connections",
          shape: ["string"],
          read: (after, limit) => live.connections.list(context, String(after?.[0] ?? NEWEST), limit),
          position: (row) => [row.id],
          show: showConnection,
        });
      },
      {
        ...documented("Sessions on the chat socket, newest first", ["SVC_PROJECT_NOT_FOUND", "SVC_INVALID_CURSOR"]),
        transform: permit("chat:read"),
        query: t.Object({ ...pageQuery, ...EnvironmentQuery }),
        response: { 200: t.Array(ChatConnection) },
      },
    )
    .get(
      "/conversations",
      (context) =>
        page(context, context.query, {
          name: "conversations",
          shape: ["string"],
          read: (after, limit) =>
            conversations.list(context, { before: String(after?.[0] ?? NEWEST), status: context.query.status, limit }),
          position: (row) => [row.id],
          show: summary,
        }),
      {
        ...documented("Conversations with message counts and last activity", [
          "SVC_PROJECT_NOT_FOUND",
          "SVC_INVALID_CURSOR",
        ]),
        transform: permit("chat:read"),
        query: t.Object({ ...pageQuery, ...EnvironmentQuery, status: t.Optional(ConversationStatus) }),
        response: { 200: t.Array(ConversationSummary) },
      },
    )
    .get("/conversations/:conversationId", (context) => summary(find(context, context.params.conversationId)), {
      ...documented("One conversation", ["SVC_PROJECT_NOT_FOUND", "SVC_CONVERSATION_NOT_FOUND"]),
      transform: permit("chat:read"),
      query: t.Object(EnvironmentQuery),
      response: { 200: ConversationSummary },
    })
    .get(
      "/conversations/:conversationId/members",
      (context) => {
        const { id } = find(context, context.params.conversationId);
        return page(context, context.query, {
          name: "members",
          shape: ["number", "string"],
          read: (after, limit) =>
            members.list(id, "ACTIVE", after && { joinedAt: Number(after[0]), userId: String(after[1]) }, limit),
          position: (row) => [row.joinedAt, row.userId],
          show: members.show,
        });
      },
      {
        ...documented("Active members", ["SVC_CONVERSATION_NOT_FOUND", "SVC_INVALID_CURSOR"]),
        transform: permit("chat:read"),
        query: t.Object({ ...pageQuery, ...EnvironmentQuery }),
        response: { 200: t.Array(ConversationMember) },
      },
    )
    .get(
      "/conversations/:conversationId/messages",
      (context) => {
        const { id: conversationId } = find(context, context.params.conversationId);
        return page(context, context.query, {
          name: "message-summaries",
          shape: ["number"],
          read: (after, limit) => {
            const from = after && Number(after[0]);
            return messages.store.history({ conversationId, from, direction: "older", includeDeleted: true, limit });
          },
          position: (row) => [row.seq],
          show: showSummary,
        });
      },
      {
        ...documented("Who wrote when, and what became of it; never what", [
          "SVC_CONVERSATION_NOT_FOUND",
          "SVC_INVALID_CURSOR",
        ]),
        transform: permit("chat:read"),
        query: t.Object({ ...pageQuery, ...EnvironmentQuery }),
        response: { 200: t.Array(MessageSummary) },
      },
    )
    .get(
      "/conversations/:conversationId/presence",
      (context) => {
        const { id } = find(context, context.params.conversationId);
        return page(context, context.query, byUser("presence", live.presences.list(id)));
      },
      {
        ...documented("Who is present now", ["SVC_CONVERSATION_NOT_FOUND", "SVC_INVALID_CURSOR"]),
        transform: permit("chat:read"),
        query: t.Object({ ...pageQuery, ...EnvironmentQuery }),
        response: { 200: t.Array(Presence) },
      },
    );
};

function showConnection(row: ChatConnectionRow) {
  return {
    connectionId: row.id,
    userId: row.userId,
    conversations: JSON.parse(row.conversations) as string[],
    connectedAt: iso(row.connectedAt),
    disconnectedAt: iso(row.disconnectedAt),
    closeCode: row.closeCode,
    messagesSent: row.messagesSent,
    userAgent: row.userAgent,
    // Empty once IP_RETENTION_DAYS are over.
    ipAddress: row.ipAddress === "" ? null : row.ipAddress,
  };
}

function showSummary(row: MessageRow) {
  const changed = row.editedAt === null ? ("sent" as const) : ("edited" as const);
  return {
    id: row.publicId,
    seq: row.seq,
    senderId: row.senderId,
    type: row.type,
    status: row.deletedAt === null ? changed : ("deleted" as const),
    threadRootId: row.threadRootId,
    replyCount: row.replyCount,
    reactionCount: row.reactionCount,
    hasAttachment: row.attachment !== null,
    createdAt: iso(row.createdAt),
    editedAt: iso(row.editedAt),
    deletedAt: iso(row.deletedAt),
  };
}
