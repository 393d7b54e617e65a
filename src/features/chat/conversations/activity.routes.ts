import { Elysia, t } from "elysia";
import { decodeCursor, encodeCursor } from "../../../kernel/http/cursor.ts";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import { queryInteger } from "../../../kernel/http/schema.ts";
import { NEWEST_BY_TIME, page, pageQuery } from "../../../kernel/http/serving/pages.ts";
import { EventPage } from "../../../protocol/chat-events.ts";
import { Presence, ReadReceipt, ReadState, Typing, Unread } from "../../../protocol/chat-records.ts";
import { actingUser } from "../access.ts";
import { NamedUser } from "../chat.schema.ts";
import type { ChatService } from "../chat.ts";
import { emptyAsNull } from "../input.ts";

const DEFAULT_EVENTS = 100;
const EVENT_CURSOR = "e";

/** A page of a list in memory, sorted by user id. */
export function pageByUser<Row extends { userId: string }>(name: string, rows: Row[]) {
  const sorted = rows.sort((a, b) => (a.userId < b.userId ? -1 : 1));
  return {
    name,
    start: [""] as [string],
    read: ([after]: [string], limit: number) => sorted.filter(({ userId }) => userId > after).slice(0, limit),
    position: (row: Row): [string] => [row.userId],
    show: (row: Row) => row,
  };
}

/** Presence, typing, read positions and events of a conversation. */
export const activityRoutes = ({ guards }: Http, chat: ChatService) => {
  const { access, log, readStates } = chat;
  const { presence, typing } = chat.sockets.hub;
  return new Elysia({ prefix: "/v1/chat", tags: ["chat"] })
    .use(guards.chat)
    .get(
      "/conversations/:room/presence",
      (context) => {
        const { conversation } = access.conversation(context.caller, context.params.room, "chat:read");
        return page(context, context.query, pageByUser("presence", presence.list(conversation.id)));
      },
      {
        ...documented("Users who are present now", ["SVC_CONVERSATION_NOT_FOUND", "SVC_INVALID_CURSOR"]),
        query: t.Object(pageQuery),
        response: { 200: t.Array(Presence) },
      },
    )
    .get(
      "/conversations/:room/typing",
      (context) => {
        const { conversation } = access.conversation(context.caller, context.params.room, "chat:read");
        return page(context, context.query, pageByUser("typing", typing.list(conversation.id)));
      },
      {
        ...documented("Users who are typing", ["SVC_CONVERSATION_NOT_FOUND", "SVC_INVALID_CURSOR"]),
        query: t.Object(pageQuery),
        response: { 200: t.Array(Typing) },
      },
    )
    .get(
      "/conversations/:room/read-receipts",
      (context) => {
        const { conversation } = access.conversation(context.caller, context.params.room, "chat:read");
        return page(context, context.query, {
          name: "receipts",
          start: NEWEST_BY_TIME,
          read: ([joinedAt, userId], limit) => readStates.receipts(conversation.id, { joinedAt, userId }, limit),
          position: (row) => [row.joinedAt, row.userId],
          show: readStates.presentReceipt,
        });
      },
      {
        ...documented("Every member's read position", ["SVC_CONVERSATION_NOT_FOUND", "SVC_INVALID_CURSOR"]),
        query: t.Object(pageQuery),
        response: { 200: t.Array(ReadReceipt) },
      },
    )
    .get(
      "/conversations/:room/read-state",
      ({ caller, params, query }) => {
        const found = access.conversation(caller, params.room, "chat:read");
        return readStates.of(found.conversation, actingUser(found, query.userId));
      },
      {
        ...documented("The user's read position and unread count", ["SVC_CONVERSATION_NOT_FOUND"]),
        query: NamedUser,
        response: { 200: ReadState },
      },
    )
    .get(
      "/conversations/:room/events",
      ({ caller, params, query }) => {
        const { conversation } = access.conversation(caller, params.room, "chat:read");
        const after = eventSeqOf(query.after);
        const { limit = DEFAULT_EVENTS } = query;
        const events = log.replay(conversation, after, limit + 1);
        const data = events.slice(0, limit);
        const hasMore = events.length > limit;
        const last = data.at(-1)?.seq ?? after;
        return {
          data,
          nextCursor: hasMore ? encodeCursor(EVENT_CURSOR, [last]) : null,
          hasMore,
          epoch: chat.epoch,
          lastSeq: conversation.lastSeq,
          recovered: after >= conversation.logStartSeq && after <= conversation.lastSeq,
        };
      },
      {
        ...documented(
          "Events after `after`, oldest first",
          ["SVC_CONVERSATION_NOT_FOUND", "SVC_INVALID_CURSOR"],
          "`after` is a `seq` or a `nextCursor`. With `recovered: false`, retention has removed events before the first one.",
        ),
        query: t.Object({
          after: t.Optional(t.String({ maxLength: 256 })),
          limit: t.Optional(queryInteger({ min: 1, max: 200 })),
        }),
        response: { 200: EventPage },
      },
    )
    .get(
      "/unread",
      ({ caller, query }) => {
        access.requireScope(caller, "chat:read");
        const conversations = caller.kind === "chatToken" ? caller.conversations : null;
        return readStates.unreadOf(caller, actingUser(caller, query.userId), conversations);
      },
      {
        ...documented("Unread counts of a user, in total and by conversation", ["SVC_PERMISSION_DENIED"]),
        query: NamedUser,
        response: { 200: Unread },
      },
    );
};

/** Clients continue the list with the `seq` of the last event they saw, or with the cursor of the previous page. */
function eventSeqOf(after: string | undefined): number {
  const text = emptyAsNull(after);
  if (text === null) return 0;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  return decodeCursor<[number]>(EVENT_CURSOR, text, [0])[0];
}
