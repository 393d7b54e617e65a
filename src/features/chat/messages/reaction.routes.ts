import { Elysia, type Static, t } from "elysia";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import { shapeOf } from "../../../kernel/http/reference/response-shape.ts";
import { longPageAsJson, page, pageQuery, pageQueryUpTo } from "../../../kernel/http/serving/pages.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { Message, Reaction, ReadState } from "../../../protocol/chat-records.ts";
import { actingUser } from "../access.ts";
import { AddReaction, BooleanQuery, NamedUser } from "../chat.schema.ts";
import type { ChatService } from "../chat.ts";

/** The maximum number of messages on one page of a thread. */
const THREAD_MESSAGES = 1000;
const THREAD_BYTES = 1024 * 1024;

/** The server does not apply the response schema to a page that is already serialized. */
const shaped = shapeOf(Message) as (message: Static<typeof Message>) => Static<typeof Message>;

/** Reactions, read positions, threads and pins of messages. */
export const reactionRoutes = ({ guards }: Http, { write }: Runtime, chat: ChatService) => {
  const { access, budgets, messages, reactions, readStates } = chat;
  return new Elysia({ prefix: "/v1/chat", tags: ["chat"] })
    .use(guards.chat)
    .post(
      "/messages/:messageId/reactions",
      async ({ caller, params, body, set }) => {
        budgets.react(caller);
        const { reaction, added } = await write((unit) => {
          const found = access.message(caller, params.messageId, "chat:send");
          return reactions.add(unit, found, actingUser(found.access, body.userId), body.emoji);
        });
        set.status = added ? 201 : 200;
        return reaction;
      },
      {
        ...documented("React to a message; once per user and emoji", [
          "SVC_MESSAGE_NOT_FOUND",
          "SVC_PERMISSION_DENIED",
          "SVC_MUTED",
          "SVC_MESSAGE_DELETED",
          "SVC_REACTION_LIMIT_REACHED",
          "SVC_CONVERSATION_ARCHIVED",
          "SVC_RATE_LIMITED",
        ]),
        body: AddReaction,
        response: { 200: Reaction, 201: Reaction },
      },
    )
    .delete(
      "/messages/:messageId/reactions/:emoji",
      async ({ caller, params, query, set }) => {
        budgets.react(caller);
        await write((unit) => {
          const found = access.message(caller, params.messageId, "chat:send");
          reactions.remove(unit, found, actingUser(found.access, query.userId), params.emoji);
        });
        set.status = 204;
      },
      {
        ...documented("Remove a reaction", ["SVC_MESSAGE_NOT_FOUND", "SVC_CONVERSATION_ARCHIVED", "SVC_RATE_LIMITED"]),
        query: NamedUser,
      },
    )
    .post(
      "/messages/:messageId/read",
      ({ caller, params, body, query }) => {
        budgets.read(caller);
        return write((unit) => {
          const found = access.message(caller, params.messageId, "chat:read");
          return readStates.mark(unit, found, actingUser(found.access, body.userId ?? query.userId));
        });
      },
      {
        ...documented("Mark this message and all earlier ones as read", ["SVC_MESSAGE_NOT_FOUND", "SVC_RATE_LIMITED"]),
        body: NamedUser,
        query: NamedUser,
        response: { 200: ReadState },
      },
    )
    .get(
      "/messages/:messageId/thread",
      (context) => {
        const { caller, params, query } = context;
        const { includeDeleted = false, ...pageRequest } = query;
        const found = access.message(caller, params.messageId, "chat:read");
        return longPageAsJson(context, pageRequest, {
          name: "thread",
          start: [0] as [number],
          read: ([afterSeq], limit) => messages.thread(found, afterSeq, includeDeleted, limit),
          position: (row) => [row.seq],
          show: (row) => shaped(messages.present(found.access.conversation, row)),
          defaultLimit: THREAD_MESSAGES,
          maxBytes: THREAD_BYTES,
          onBytes: (bytes) => budgets.chargeResponse(caller, bytes),
        });
      },
      {
        ...documented(
          "The whole thread: its root, then the replies, oldest first",
          ["SVC_MESSAGE_NOT_FOUND", "SVC_INVALID_CURSOR"],
          "At most 1,000 messages and 1 MiB; `link` leads to the rest. Each 128 KiB count as one more request of the user's budget.",
        ),
        query: t.Object({ ...pageQueryUpTo(THREAD_MESSAGES), includeDeleted: BooleanQuery }),
        response: { 200: t.Array(Message) },
      },
    )
    .post(
      "/messages/:messageId/pin",
      ({ caller, params }) =>
        write((unit) => messages.pin(unit, access.message(caller, params.messageId, "chat:moderate"), true)),
      {
        ...documented("Pin a message", ["SVC_MESSAGE_NOT_FOUND", "SVC_PERMISSION_DENIED"]),
        response: { 200: Message },
      },
    )
    .delete(
      "/messages/:messageId/pin",
      async ({ caller, params, set }) => {
        await write((unit) => messages.pin(unit, access.message(caller, params.messageId, "chat:moderate"), false));
        set.status = 204;
      },
      documented("Unpin a message", ["SVC_MESSAGE_NOT_FOUND", "SVC_PERMISSION_DENIED"]),
    )
    .get(
      "/conversations/:room/pins",
      (context) => {
        const { conversation } = access.conversation(context.caller, context.params.room, "chat:read");
        return page(context, context.query, {
          name: "pins",
          start: [Number.MAX_SAFE_INTEGER, 0] as [number, number],
          read: ([at, id], limit) => messages.store.pinned(conversation.id, { at, id }, limit),
          position: (row) => [row.pinnedAt ?? 0, row.id],
          show: (row) => messages.present(conversation, row),
        });
      },
      {
        ...documented("Pinned messages, the last pinned first", ["SVC_CONVERSATION_NOT_FOUND", "SVC_INVALID_CURSOR"]),
        query: t.Object(pageQuery),
        response: { 200: t.Array(Message) },
      },
    );
};
