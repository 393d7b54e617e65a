import { Elysia } from "elysia";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { Ring } from "../../../protocol/chat-records.ts";
import { ApiError } from "../../../protocol/errors.ts";
import { actingUser } from "../access.ts";
import type { ChatCaller } from "../caller.ts";
import type { ChatService } from "../chat.ts";
import { given } from "../limits.ts";
import { NamedUser } from "../rest/chat.schema.ts";
import { RingMembers } from "./ring.schema.ts";

/** Ringing, by REST: what the chat socket does with `call.ring`, `call.answer`, `call.decline` and `call.cancel`. */
export const ringRoutes = ({ guards }: Http, { write }: Runtime, chat: ChatService) => {
  const { access, budgets, rings } = chat;

  function find(caller: ChatCaller, ringId: string) {
    const row = rings.find(ringId);
    if (!row) throw new ApiError("SVC_RING_NOT_FOUND");
    return { row, access: access.within(caller, row.conversationId, "chat:read", "SVC_RING_NOT_FOUND") };
  }

  const answered = (status: "ANSWERED" | "DECLINED") => (context: AnswerContext) => {
    budgets.ring(context.caller);
    return write((unit) => {
      const found = find(context.caller, context.params.ringId);
      return rings.answer(unit, found.row, actingUser(found.access, context.body.userId), status);
    });
  };
  type AnswerContext = { caller: ChatCaller; params: { ringId: string }; body: { userId?: string } };

  return new Elysia({ prefix: "/v1/chat", tags: ["chat"] })
    .use(guards.chat)
    .post(
      "/conversations/:room/rings",
      async ({ caller, params, body, set }) => {
        budgets.ring(caller);
        const { ring, begun } = await write((unit) => {
          const found = access.conversation(caller, params.room, "chat:send");
          return rings.ring(unit, found, found.userId ?? given(body.userId), body);
        });
        set.status = begun ? 201 : 200;
        return ring;
      },
      {
        ...documented(
          "Ring members of a conversation into its room",
          [
            "SVC_CONVERSATION_NOT_FOUND",
            "SVC_MEMBER_NOT_FOUND",
            "SVC_CONFLICT",
            "SVC_CONVERSATION_ARCHIVED",
            "SVC_PERMISSION_DENIED",
            "SVC_MUTED",
            "SVC_RATE_LIMITED",
          ],
          "Whoever rings again while their ring goes on gets that one, with 200.",
        ),
        body: RingMembers,
        response: { 200: Ring, 201: Ring },
      },
    )
    .get("/rings/:ringId", ({ caller, params }) => rings.show(find(caller, params.ringId).row), {
      ...documented("One ring", ["SVC_RING_NOT_FOUND"]),
      response: { 200: Ring },
    })
    .post("/rings/:ringId/answer", answered("ANSWERED"), {
      ...documented("Answer a ring; joining the room does the same", [
        "SVC_RING_NOT_FOUND",
        "SVC_RING_OVER",
        "SVC_RATE_LIMITED",
      ]),
      body: NamedUser,
      response: { 200: Ring },
    })
    .post("/rings/:ringId/decline", answered("DECLINED"), {
      ...documented("Decline a ring", ["SVC_RING_NOT_FOUND", "SVC_RING_OVER", "SVC_RATE_LIMITED"]),
      body: NamedUser,
      response: { 200: Ring },
    })
    .post(
      "/rings/:ringId/cancel",
      ({ caller, params }) => {
        budgets.ring(caller);
        return write((unit) => {
          const { row, access: found } = find(caller, params.ringId);
          if (found.kind === "user" && row.callerUserId !== found.userId) throw new ApiError("SVC_PERMISSION_DENIED");
          return rings.cancel(unit, row);
        });
      },
      {
        ...documented("Take a ring back; for whoever rang", [
          "SVC_RING_NOT_FOUND",
          "SVC_PERMISSION_DENIED",
          "SVC_RATE_LIMITED",
        ]),
        response: { 200: Ring },
      },
    );
};
