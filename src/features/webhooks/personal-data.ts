import { changeEach, rowPages } from "../../kernel/db/pages.ts";
import { changing, reading } from "../../kernel/db/statements.ts";
import type { PersonalColumns, PersonalData } from "../../kernel/personal-data.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { namesUser, withoutUser } from "../chat/redaction.ts";

export const webhookPersonalColumns: PersonalColumns = { userIds: {}, content: ["webhook_events.body"] };

/** Events about a user that wait for delivery or can be sent again. */
export function webhookPersonalData({ db, write }: Runtime): PersonalData {
  const { $client: client } = db;
  const events = reading<{ id: string; type: string; body: string }, [number, number, string, string, string]>(
    client,
    `SELECT id, type, body FROM webhook_events
       WHERE seq > ? AND seq <= ? AND project_id = ? AND environment = ? AND instr(body, ?) > 0`,
  );
  const remove = changing<[string]>(client, "DELETE FROM webhook_events WHERE id = ?");
  const rewrite = changing<[string, string]>(client, "UPDATE webhook_events SET body = ?2 WHERE id = ?1");

  return {
    async erase({ projectId, environment, userId }) {
      const naming = rowPages(db, "webhook_events", (after, until) =>
        events.all(after, until, projectId, environment, JSON.stringify(userId)),
      );
      await changeEach(write, naming, (unit, { id, type, body }) => {
        const event = JSON.parse(body) as { data: { message?: { senderId?: unknown } } };
        if (type.startsWith("message.") && event.data.message?.senderId === userId) remove.run(unit, id);
        else if (namesUser(event, userId)) rewrite.run(unit, id, JSON.stringify(withoutUser(event, userId)));
      });
    },
  };
}
