import { Elysia, t } from "elysia";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import { NEWEST_BY_ID, NEWEST_BY_TIME, page, pageQuery } from "../../../kernel/http/serving/pages.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { type ChatMemberStatus, Conversation, ConversationMember } from "../../../protocol/chat-records.ts";
import { type ChatCaller, requireServer } from "../access.ts";
import {
  AddMember,
  ConversationStatus,
  CreateConversation,
  MemberStatus,
  UpdateConversation,
  UpdateMember,
} from "../chat.schema.ts";
import type { ChatService } from "../chat.ts";
import type { ConversationRow, MemberRow } from "./conversation.table.ts";
import type { MemberService } from "./member.service.ts";

export function memberPages(members: MemberService, conversationId: string, status: ChatMemberStatus) {
  return {
    name: "members",
    start: NEWEST_BY_TIME,
    read: ([joinedAt, userId]: [number, string], limit: number) =>
      members.list(conversationId, status, { joinedAt, userId }, limit),
    position: ({ joinedAt, userId }: MemberRow): [number, string] => [joinedAt, userId],
    show: members.present,
  };
}

export const conversationRoutes = ({ guards, idempotency }: Http, { write }: Runtime, chat: ChatService) => {
  const { access, conversations, members, readStates } = chat;
  /** A response to a user also contains the unread counts. */
  const presented = (caller: ChatCaller, row: ConversationRow): Conversation =>
    caller.kind === "apiKey"
      ? conversations.present(row)
      : { ...conversations.present(row), ...readStates.unread(row, caller.userId) };
  return new Elysia({ prefix: "/v1/chat/conversations", tags: ["chat"] })
    .use(guards.chat)
    .get(
      "",
      (context) => {
        const { caller, query } = context;
        const { status, ...pageRequest } = query;
        access.requireScope(caller, "chat:read");
        return page(context, pageRequest, {
          name: "conversations",
          start: NEWEST_BY_ID,
          read: ([before], limit) => {
            const filter = { before, status, limit };
            if (caller.kind === "apiKey") return conversations.list(caller, filter);
            return conversations.listOfUser(caller, caller.userId, caller.conversations, filter);
          },
          position: (row) => [row.id],
          show: (row) => presented(caller, row),
        });
      },
      {
        ...documented("The project's conversations; with a chat token, those of its user", [
          "SVC_INVALID_CURSOR",
          "SVC_PERMISSION_DENIED",
        ]),
        query: t.Object({ ...pageQuery, status: t.Optional(ConversationStatus) }),
        response: { 200: t.Array(Conversation) },
      },
    )
    .post(
      "",
      (context) => {
        const { body } = context;
        const caller = requireServer(context.caller, "creates conversations");
        return idempotency.create(context, (unit) => conversations.present(conversations.create(unit, caller, body)));
      },
      {
        ...documented("Create a conversation, optionally attached to an RTC room", [
          "SVC_PERMISSION_DENIED",
          "SVC_CONFLICT",
          "SVC_ROOM_NOT_FOUND",
          "SVC_ROOM_CLOSED",
          "SVC_IDEMPOTENCY_KEY_REUSED",
        ]),
        body: CreateConversation,
        response: { 201: Conversation },
      },
    )
    .get(
      "/:room",
      ({ caller, params }) => presented(caller, access.conversation(caller, params.room, "chat:read").conversation),
      { ...documented("One conversation", ["SVC_CONVERSATION_NOT_FOUND"]), response: { 200: Conversation } },
    )
    .patch(
      "/:room",
      ({ caller, params, body }) =>
        write((unit) =>
          conversations.present(
            conversations.update(unit, access.conversation(caller, params.room, "chat:manage"), body),
          ),
        ),
      {
        ...documented("Update a conversation: name, status, retention, slow mode", [
          "SVC_CONVERSATION_NOT_FOUND",
          "SVC_PERMISSION_DENIED",
          "SVC_CONFLICT",
          "SVC_CONVERSATION_ARCHIVED",
        ]),
        body: UpdateConversation,
        response: { 200: Conversation },
      },
    )
    .get(
      "/:room/members",
      (context) => {
        const { caller, params, query } = context;
        const { status = "ACTIVE", ...pageRequest } = query;
        const { conversation } = access.conversation(
          caller,
          params.room,
          status === "ACTIVE" ? "chat:read" : "chat:moderate",
        );
        return page(context, pageRequest, memberPages(members, conversation.id, status));
      },
      {
        ...documented("Active members; moderators may ask for others by `status`", [
          "SVC_CONVERSATION_NOT_FOUND",
          "SVC_INVALID_CURSOR",
        ]),
        query: t.Object({ ...pageQuery, status: t.Optional(MemberStatus) }),
        response: { 200: t.Array(ConversationMember) },
      },
    )
    .post(
      "/:room/members",
      async ({ caller, params, body, set }) => {
        const { member, added } = await write((unit) =>
          members.add(unit, access.conversation(caller, params.room, "chat:manage").conversation.id, body),
        );
        set.status = added ? 201 : 200;
        return members.present(member);
      },
      {
        ...documented("Add a member, or re-activate one", [
          "SVC_CONVERSATION_NOT_FOUND",
          "SVC_PERMISSION_DENIED",
          "SVC_BANNED",
          "SVC_CONFLICT",
          "SVC_CONVERSATION_ARCHIVED",
        ]),
        body: AddMember,
        response: { 200: ConversationMember, 201: ConversationMember },
      },
    )
    .patch(
      "/:room/members/:userId",
      ({ caller, params, body }) =>
        write((unit) =>
          members.present(
            members.change(unit, access.conversation(caller, params.room, "chat:moderate"), params.userId, body),
          ),
        ),
      {
        ...documented("Change the role of a member, mute or ban them", [
          "SVC_CONVERSATION_NOT_FOUND",
          "SVC_MEMBER_NOT_FOUND",
          "SVC_PERMISSION_DENIED",
          "SVC_CONVERSATION_ARCHIVED",
        ]),
        body: UpdateMember,
        response: { 200: ConversationMember },
      },
    )
    .delete(
      "/:room/members/:userId",
      async ({ caller, params, set }) => {
        await write((unit) =>
          members.remove(unit, access.conversation(caller, params.room, "chat:read"), params.userId),
        );
        set.status = 204;
      },
      documented("Remove a member; their messages keep an author", [
        "SVC_CONVERSATION_NOT_FOUND",
        "SVC_MEMBER_NOT_FOUND",
        "SVC_PERMISSION_DENIED",
        "SVC_CONVERSATION_ARCHIVED",
      ]),
    );
};
