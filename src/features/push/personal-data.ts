import { changeEach, tenantPages } from "../../kernel/db/pages.ts";
import { changing, columnsOf, reading } from "../../kernel/db/statements.ts";
import type { PersonalColumns, PersonalData, User } from "../../kernel/personal-data.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { iso } from "../../kernel/time/clock.ts";
import { notificationSettings, pushSubscriptions, type SettingRow, type SubscriptionRow } from "./push.table.ts";

export const pushPersonalColumns: PersonalColumns = {
  userIds: {
    "push_subscriptions.user_id": "",
    "notification_settings.user_id": "JOIN conversations c ON c.id = conversation_id",
  },
  content: ["push_subscriptions.endpoint"],
};

/** The push subscriptions of a user and the notification settings. */
export function pushPersonalData({ db, write }: Runtime): PersonalData {
  const { $client: client } = db;
  const subscriptions = reading<SubscriptionRow, [string, string, string]>(
    client,
    `SELECT ${columnsOf(pushSubscriptions)} FROM push_subscriptions
       WHERE project_id = ? AND environment = ? AND user_id = ?`,
  );
  const removeSubscription = changing(client, "DELETE FROM push_subscriptions WHERE id = ?");
  const settings = reading<SettingRow & { conversationPublicId: string }, [string, string, string, string, string]>(
    client,
    `SELECT ${columnsOf(notificationSettings, "s")}, c.public_id AS conversationPublicId FROM conversations c
       CROSS JOIN notification_settings s ON s.conversation_id = c.id AND s.user_id = ?3
       WHERE c.project_id = ?1 AND c.environment = ?2 AND c.id > ?4 AND c.id <= ?5`,
  );
  const removeSetting = changing(client, "DELETE FROM notification_settings WHERE conversation_id = ? AND user_id = ?");

  const subscriptionsOf = ({ projectId, environment, userId }: User) =>
    subscriptions.all(projectId, environment, userId);
  const settingsOf = (user: User) =>
    tenantPages(db, "conversations", user, (after, until) =>
      settings.all(user.projectId, user.environment, user.userId, after, until),
    );

  return {
    kinds: {
      pushSubscriptions: async function* (user) {
        yield subscriptionsOf(user).map(({ publicId, endpoint, createdAt }) => ({
          id: publicId,
          endpoint,
          createdAt: iso(createdAt),
        }));
      },
      notificationSettings: async function* (user) {
        for await (const rows of settingsOf(user)) {
          yield rows.map(({ conversationPublicId, level, mutedUntil }) => ({
            conversationId: conversationPublicId,
            level,
            mutedUntil: iso(mutedUntil),
          }));
        }
      },
    },
    async erase(user) {
      await changeEach(write, [subscriptionsOf(user)], (unit, { id }) => void removeSubscription.run(unit, id));
      await changeEach(
        write,
        settingsOf(user),
        (unit, { conversationId, userId }) => void removeSetting.run(unit, conversationId, userId),
      );
    },
  };
}
