import { Elysia } from "elysia";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { Ring } from "../../../protocol/chat-records.ts";
import { ApiError } from "../../../protocol/errors.ts";
import { actingUser, type ChatCaller } from "../access.ts";
import { NamedUser } from "../chat.schema.ts";
import type { ChatService } from "../chat.ts";
import { emptyAsNull } from "../input.ts";
import { RingMembers } from "./ring.schema.ts";

/** Rings over REST; the chat socket has `call.ring`, `call.answer`, `call.decline` and `call.cancel`. */
export const ringRoutes = ({ guards }: Http, { write }: Runtime, chat: ChatService) => {
  const { access, budgets, rings } = chat;

  const answer = (status: "ANSWERED" | "DECLINED") => (context: AnswerContext) => {
    budgets.ring(context.caller);
    return write((unit) => {
      const found = rings.findFor(context.caller, context.params.ringId);
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
        const { ring, isNew } = await write((unit) => {
          const found = access.conversation(caller, params.room, "chat:send");
          return rings.ring(unit, found, found.userId ?? emptyAsNull(body.userId), body);
        });
        set.status = isNew ? 201 : 200;
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
          "A caller whose ring is still open gets that ring again, with 200.",
        ),
        body: RingMembers,
        response: { 200: Ring, 201: Ring },
      },
    )
    .get("/rings/:ringId", ({ caller, params }) => rings.present(rings.findFor(caller, params.ringId).row), {
      ...documented("One ring", ["SVC_RING_NOT_FOUND"]),
      response: { 200: Ring },
    })
    .post("/rings/:ringId/answer", answer("ANSWERED"), {
      ...documented("Answer a ring; joining the room does the same", [
        "SVC_RING_NOT_FOUND",
        "SVC_RING_OVER",
        "SVC_RATE_LIMITED",
      ]),
      body: NamedUser,
      response: { 200: Ring },
    })
    .post("/rings/:ringId/decline", answer("DECLINED"), {
      ...documented("Decline a ring", ["SVC_RING_NOT_FOUND", "SVC_RING_OVER", "SVC_RATE_LIMITED"]),
      body: NamedUser,
      response: { 200: Ring },
    })
    .post(
      "/rings/:ringId/cancel",
      ({ caller, params }) => {
        budgets.ring(caller);
        return write((unit) => {
          const { row, access: found } = rings.findFor(caller, params.ringId);
          if (found.kind === "user" && row.callerUserId !== found.userId) throw new ApiError("SVC_PERMISSION_DENIED");
          return rings.cancel(unit, row);
        });
      },
      {
        ...documented("Cancel a ring; for its caller", [
          "SVC_RING_NOT_FOUND",
          "SVC_PERMISSION_DENIED",
          "SVC_RATE_LIMITED",
        ]),
        response: { 200: Ring },
      },
    );
};
