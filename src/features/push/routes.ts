import { Elysia, t } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { actingUser } from "../chat/access.ts";
import { NamedUser } from "../chat/chat.schema.ts";
import type { ChatService } from "../chat/chat.ts";
import { NotificationSetting, PushKey, PushSubscription, SetNotifications, Subscribe } from "./push.schema.ts";
import type { Push } from "./push.ts";

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
        access.requireScope(caller, "chat:read");
        return subscriptions.list(caller, actingUser(caller, query.userId)).map(subscriptions.present);
      },
      {
        ...documented("Push subscriptions of a user, oldest first", ["SVC_PERMISSION_DENIED"]),
        query: NamedUser,
        response: { 200: t.Array(PushSubscription) },
      },
    )
    .post(
      "/push/subscriptions",
      async ({ caller, body, set }) => {
        budgets.subscribePush(caller);
        access.requireScope(caller, "chat:read");
        const userId = actingUser(caller, body.userId);
        const { row, isNew } = await write((unit) => subscriptions.subscribe(unit, caller, userId, body));
        set.status = isNew ? 201 : 200;
        return subscriptions.present(row);
      },
      {
        ...documented(
          "Subscribe a browser to pushes for the time without an open socket",
          ["SVC_PERMISSION_DENIED", "SVC_LIMIT_REACHED", "SVC_RATE_LIMITED"],
          'An endpoint has one subscription, which belongs to the user who registered it last. It receives what the token may read, and ends with the token unless that was minted with `push: "keep"`.',
        ),
        body: Subscribe,
        response: { 200: PushSubscription, 201: PushSubscription },
      },
    )
    .delete(
      "/push/subscriptions/:subscriptionId",
      async ({ caller, params, set }) => {
        await write((unit) => subscriptions.remove(unit, caller, params.subscriptionId));
        set.status = 204;
      },
      documented("Remove a push subscription", ["SVC_PUSH_SUBSCRIPTION_NOT_FOUND"]),
    )
    .get(
      "/conversations/:room/notifications",
      ({ caller, params, query }) => {
        const found = access.conversation(caller, params.room, "chat:read");
        const userId = actingUser(found, query.userId);
        return subscriptions.presentSetting(subscriptions.setting(found.conversation.id, userId));
      },
      {
        ...documented("The notification setting of a user for a conversation", ["SVC_CONVERSATION_NOT_FOUND"]),
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
          return subscriptions.presentSetting(
            subscriptions.set(unit, found.conversation.id, userId, body.level, until),
          );
        });
      },
      {
        ...documented("Change the notification setting of a user for a conversation", [
          "SVC_CONVERSATION_NOT_FOUND",
          "SVC_RATE_LIMITED",
        ]),
        body: SetNotifications,
        response: { 200: NotificationSetting },
      },
    );
};
