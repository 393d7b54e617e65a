import { Elysia, t } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import { EnvironmentQuery } from "../../kernel/http/schema.ts";
import { NEWEST_BY_ID, NEWEST_BY_NUMBER, page, pageQuery } from "../../kernel/http/serving/pages.ts";
import { memberRoute } from "../../kernel/http/shared-routes.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { iso } from "../../kernel/time/clock.ts";
import { ConversationMember, Presence } from "../../protocol/chat-records.ts";
import { ApiError } from "../../protocol/errors.ts";
import {
  ChatConnection,
  ChatOverview,
  ConversationStatus,
  ConversationSummary,
  MessageSummary,
} from "./chat.schema.ts";
import type { ChatService } from "./chat.ts";
import { pageByUser } from "./conversations/activity.routes.ts";
import { memberPages } from "./conversations/conversation.routes.ts";
import type { ConversationRow } from "./conversations/conversation.table.ts";
import type { MessageRow } from "./messages/message.table.ts";
import type { ChatConnectionRow } from "./socket/connection.table.ts";

/** Chat for the dashboard: counts and metadata, never the content of a message. */
export const chatDashboardRoutes = ({ guards }: Http, { now }: Runtime, chat: ChatService) => {
  const { conversations, members, messages } = chat;
  const { connections, hub } = chat.sockets;

  function find(tenant: Tenant, reference: string): ConversationRow {
    const row = conversations.resolve(tenant, reference);
    if (!row) throw new ApiError("SVC_CONVERSATION_NOT_FOUND");
    return row;
  }

  const summarize = (row: ConversationRow) => ({
    ...conversations.present(row),
    messageCount: row.messageCount,
    lastActivityAt: iso(Math.max(row.lastMessageAt ?? 0, row.updatedAt)),
  });

  return new Elysia({ prefix: "/v1/projects/:projectId/chat", tags: ["chat: dashboard"] })
    .use(guards.member)
    .get(
      "/overview",
      (context) => ({
        ...conversations.totals(context, now()),
        connections: connections.count(context),
        ...conversations.attachmentTotals(context),
      }),
      {
        ...memberRoute("chat:read", "Chat activity in numbers"),
        query: t.Object(EnvironmentQuery),
        response: { 200: ChatOverview },
      },
    )
    .get(
      "/connections",
      async (context) => {
        await connections.flush();
        return page(context, context.query, {
          name: "chat-connections",
          start: NEWEST_BY_ID,
          read: ([before], limit) => connections.list(context, before, limit),
          position: (row) => [row.id],
          show: presentConnection,
        });
      },
      {
        ...memberRoute("chat:read", "Sessions on the chat socket, newest first", ["SVC_INVALID_CURSOR"]),
        query: t.Object({ ...pageQuery, ...EnvironmentQuery }),
        response: { 200: t.Array(ChatConnection) },
      },
    )
    .get(
      "/conversations",
      (context) =>
        page(context, context.query, {
          name: "conversations",
          start: NEWEST_BY_ID,
          read: ([before], limit) => conversations.list(context, { before, status: context.query.status, limit }),
          position: (row) => [row.id],
          show: summarize,
        }),
      {
        ...memberRoute("chat:read", "Conversations with message counts and last activity", ["SVC_INVALID_CURSOR"]),
        query: t.Object({ ...pageQuery, ...EnvironmentQuery, status: t.Optional(ConversationStatus) }),
        response: { 200: t.Array(ConversationSummary) },
      },
    )
    .get("/conversations/:conversationId", (context) => summarize(find(context, context.params.conversationId)), {
      ...memberRoute("chat:read", "One conversation", ["SVC_CONVERSATION_NOT_FOUND"]),
      query: t.Object(EnvironmentQuery),
      response: { 200: ConversationSummary },
    })
    .get(
      "/conversations/:conversationId/members",
      (context) => {
        const { id } = find(context, context.params.conversationId);
        return page(context, context.query, memberPages(members, id, "ACTIVE"));
      },
      {
        ...memberRoute("chat:read", "Active members", ["SVC_CONVERSATION_NOT_FOUND", "SVC_INVALID_CURSOR"]),
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
          start: NEWEST_BY_NUMBER,
          read: ([from], limit) =>
            messages.store.history({ conversationId, from, direction: "older", includeDeleted: true, limit }),
          position: (row) => [row.seq],
          show: summarizeMessage,
        });
      },
      {
        ...memberRoute("chat:read", "Messages without their content: sender, time and status", [
          "SVC_CONVERSATION_NOT_FOUND",
          "SVC_INVALID_CURSOR",
        ]),
        query: t.Object({ ...pageQuery, ...EnvironmentQuery }),
        response: { 200: t.Array(MessageSummary) },
      },
    )
    .get(
      "/conversations/:conversationId/presence",
      (context) => {
        const { id } = find(context, context.params.conversationId);
        return page(context, context.query, pageByUser("presence", hub.presence.list(id)));
      },
      {
        ...memberRoute("chat:read", "Users who are present now", ["SVC_CONVERSATION_NOT_FOUND", "SVC_INVALID_CURSOR"]),
        query: t.Object({ ...pageQuery, ...EnvironmentQuery }),
        response: { 200: t.Array(Presence) },
      },
    );
};

function presentConnection(row: ChatConnectionRow) {
  return {
    connectionId: row.id,
    userId: row.userId,
    conversations: JSON.parse(row.conversations) as string[],
    connectedAt: iso(row.connectedAt),
    disconnectedAt: iso(row.disconnectedAt),
    closeCode: row.closeCode,
    messagesSent: row.messagesSent,
    userAgent: row.userAgent,
    // The IP address is removed after IP_RETENTION_DAYS.
    ipAddress: row.ipAddress === "" ? null : row.ipAddress,
  };
}

function summarizeMessage(row: MessageRow) {
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
