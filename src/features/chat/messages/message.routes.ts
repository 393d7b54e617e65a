import { Elysia, t } from "elysia";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import { queryInteger } from "../../../kernel/http/schema.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { Message, MessagePage } from "../../../protocol/chat-records.ts";
import type { ChatCaller } from "../access.ts";
import { BooleanQuery, EditMessage, SendMessage, SentMessage } from "../chat.schema.ts";
import type { ChatService } from "../chat.ts";
import { historyPage } from "./history.ts";

type StoredResponse = { id: string; deduplicated: boolean };

export const messageRoutes = ({ guards, idempotency }: Http, { config, write }: Runtime, chat: ChatService) => {
  const { access, budgets, messages, preSend } = chat;
  function sentMessage(caller: ChatCaller, { id, deduplicated }: StoredResponse) {
    const found = access.message(caller, id, "chat:send");
    return { ...messages.present(found.access.conversation, found.message), deduplicated };
  }
  return new Elysia({ tags: ["chat"] })
    .use(guards.chat)
    .get(
      "/v1/chat/conversations/:room/messages",
      ({ caller, params, query }) => {
        const { conversation } = access.conversation(caller, params.room, "chat:read");
        return historyPage(messages, conversation, query, config.CHAT_MAX_HISTORY_PAGE_SIZE);
      },
      {
        ...documented(
          "Messages, newest first",
          ["SVC_CONVERSATION_NOT_FOUND", "SVC_INVALID_CURSOR"],
          "`before` leads to older messages, `after` to newer ones. `nextCursor` continues in the same direction; `previousCursor`, sent as `after`, returns the messages sent since.",
        ),
        query: t.Object({
          limit: t.Optional(queryInteger({ min: 1 })),
          before: t.Optional(t.String({ maxLength: 256 })),
          after: t.Optional(t.String({ maxLength: 256 })),
          threadRootId: t.Optional(t.String({ maxLength: 64 })),
          senderId: t.Optional(t.String({ maxLength: 128 })),
          includeDeleted: BooleanQuery,
        }),
        response: { 200: MessagePage },
      },
    )
    .post(
      "/v1/chat/conversations/:room/messages",
      (context) => {
        const { caller, params, body, set } = context;
        budgets.send(caller);
        const found = () => access.conversation(caller, params.room, "chat:send");
        return preSend.run(
          () => (caller.kind === "apiKey" ? null : { type: "message.sending", access: found(), message: body }),
          body,
          (checked) =>
            idempotency.create(
              context,
              (unit) => {
                const { message, deduplicated } = messages.send(unit, found(), checked);
                if (deduplicated) set.status = 200;
                return { ...message, deduplicated };
              },
              // The stored response holds no text, because a deleted message must not survive in it.
              {
                of: ({ id, deduplicated }) => ({ id, deduplicated }),
                follow: (stored) => sentMessage(caller, stored as StoredResponse),
              },
            ),
        );
      },
      {
        ...documented("Send a message", [
          "SVC_CONVERSATION_NOT_FOUND",
          "SVC_MESSAGE_NOT_FOUND",
          "SVC_ATTACHMENT_NOT_FOUND",
          "SVC_ATTACHMENT_NOT_READY",
          "SVC_PERMISSION_DENIED",
          "SVC_MUTED",
          "SVC_BLOCKED",
          "SVC_MESSAGE_REFUSED",
          "SVC_FILTER_UNAVAILABLE",
          "SVC_CONVERSATION_ARCHIVED",
          "SVC_MESSAGE_DELETED",
          "SVC_RATE_LIMITED",
          "SVC_SLOW_MODE",
          "SVC_IDEMPOTENCY_KEY_REUSED",
        ]),
        body: SendMessage,
        response: { 200: SentMessage, 201: SentMessage },
      },
    )
    .get(
      "/v1/chat/messages/:messageId",
      ({ caller, params }) => {
        const found = access.message(caller, params.messageId, "chat:read");
        return messages.present(found.access.conversation, found.message);
      },
      { ...documented("One message, or its tombstone", ["SVC_MESSAGE_NOT_FOUND"]), response: { 200: Message } },
    )
    .patch(
      "/v1/chat/messages/:messageId",
      ({ caller, params, body }) => {
        budgets.edit(caller);
        const found = () => access.message(caller, params.messageId, "chat:send");
        return preSend.run(
          () => {
            if (caller.kind === "apiKey") return null;
            return { type: "message.editing", access: found().access, message: { id: params.messageId, ...body } };
          },
          body,
          (checked) => write((unit) => messages.edit(unit, found(), checked)),
        );
      },
      {
        ...documented("Edit a message", [
          "SVC_MESSAGE_NOT_FOUND",
          "SVC_PERMISSION_DENIED",
          "SVC_MUTED",
          "SVC_BLOCKED",
          "SVC_MESSAGE_REFUSED",
          "SVC_FILTER_UNAVAILABLE",
          "SVC_MESSAGE_DELETED",
          "SVC_CONVERSATION_ARCHIVED",
          "SVC_RATE_LIMITED",
        ]),
        body: EditMessage,
        response: { 200: Message },
      },
    )
    .delete(
      "/v1/chat/messages/:messageId",
      ({ caller, params }) => {
        budgets.edit(caller);
        return write((unit) => messages.delete(unit, access.message(caller, params.messageId, "chat:send")));
      },
      {
        ...documented("Delete a message; a tombstone without content is left", [
          "SVC_MESSAGE_NOT_FOUND",
          "SVC_PERMISSION_DENIED",
          "SVC_CONVERSATION_ARCHIVED",
          "SVC_RATE_LIMITED",
        ]),
        response: { 200: Message },
      },
    );
};
