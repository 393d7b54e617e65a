import { Elysia, t } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { invalid } from "../../protocol/errors.ts";
import { actingUser } from "../chat/access.ts";
import type { ChatCaller } from "../chat/access.ts";
import type { ChatService } from "../chat/chat.ts";
import { emptyAsNull } from "../chat/input.ts";
import { NamedUser } from "../chat/chat.schema.ts";
import { NotificationSetting, PushKey, PushSubscription, SetNotifications, Subscribe } from "./push.schema.ts";
import type { Push } from "./push.ts";

function ownerOf(caller: ChatCaller, named: string | undefined): string {
  if (caller.kind === "chatToken") return caller.userId;
  const userId = emptyAsNull(named);
  if (userId === null) throw invalid("userId", "is required with an API key");
  return userId;
}

/** Which browsers of a user are woken, and for what. */
export const pushRoutes = ({ guards }: Http, { write }: Runtime, services: { push: Push; chat: ChatService }) => {
  const { vapid, subscriptions } = services.push;
  const { access, budgets } = services.chat;
  return new Elysia({ prefix: "/v1/chat", tags: ["push"] })
    .use(guards.chat)
    .get("/push/key", () => ({ publicKey: vapid.publicKey }), {
      ...documented("The key that browsers subscribe with", []),
      response: { 200: PushKey },
    })
    .get(
      "/push/subscriptions",
      ({ caller, query }) => {
        return subscriptions.list(caller, ownerOf(caller, query.userId)).map(subscriptions.present);
      },
      {
        ...documented("Browsers of a user that are woken, oldest first", []),
        query: NamedUser,
        response: { 200: t.Array(PushSubscription) },
      },
    )
    .post(
      "/push/subscriptions",
      async ({ caller, body, set }) => {
        budgets.subscribePush(caller);
        const userId = ownerOf(caller, body.userId);
        const { row, isNew } = await write((unit) => subscriptions.subscribe(unit, caller, userId, body));
        set.status = isNew ? 201 : 200;
        return subscriptions.present(row);
      },
      {
        ...documented(
          "Wake this browser when its user has no socket open",
          ["SVC_RATE_LIMITED"],
          "With the same endpoint it is the same subscription, and belongs to whoever registered it last.",
        ),
        body: Subscribe,
        response: { 200: PushSubscription, 201: PushSubscription },
      },
    )
    .delete(
      "/push/subscriptions/:subscriptionId",
      async ({ caller, params, set }) => {
        const userId = caller.kind === "chatToken" ? caller.userId : null;
        await write((unit) => subscriptions.remove(unit, caller, userId, params.subscriptionId));
        set.status = 204;
      },
      documented("Wake it no more", ["SVC_PUSH_SUBSCRIPTION_NOT_FOUND"]),
    )
    .get(
      "/conversations/:room/notifications",
      ({ caller, params, query }) => {
        const found = access.conversation(caller, params.room, "chat:read");
        const userId = actingUser(found, query.userId);
        return subscriptions.presentSetting(subscriptions.setting(found.conversation.id, userId));
      },
      {
        ...documented("What a user is woken for in a conversation", ["SVC_CONVERSATION_NOT_FOUND"]),
        query: NamedUser,
        response: { 200: NotificationSetting },
      },
    )
    .put(
      "/conversations/:room/notifications",
      ({ caller, params, body }) => {
        budgets.read(caller);
        return write((unit) => {
          const found = access.conversation(caller, params.room, "chat:read");
          const until = body.mutedUntil === undefined || body.mutedUntil === null ? null : Date.parse(body.mutedUntil);
          const userId = actingUser(found, body.userId);
          return subscriptions.presentSetting(subscriptions.set(unit, found.conversation.id, userId, body.level, until));
        });
      },
      {
        ...documented("Set what a user is woken for in a conversation", [
          "SVC_CONVERSATION_NOT_FOUND",
          "SVC_RATE_LIMITED",
        ]),
        body: SetNotifications,
        response: { 200: NotificationSetting },
      },
    );
};
