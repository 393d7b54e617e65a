import type { Db } from "../../../kernel/db/open.ts";
import { changing } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import { MAX_MENTIONS } from "../../../protocol/chat-records.ts";

const MENTION = /(?<![A-Za-z0-9._@:+=|-])@([A-Za-z0-9._@:+=|-]{1,128})/g;
/** Characters that are allowed at the end of a user id, but more often end a sentence. */
const TRAILING = /[._@:+=|-]+$/;

/** The members that a text mentions as `@user`, each once. */
export function mentionsIn(text: string, isMember: (userId: string) => boolean): string[] {
  const found = new Set<string>();
  let lookups = 0;
  for (const [, name = ""] of text.matchAll(MENTION)) {
    // Unknown names are limited too, because a text can contain a thousand of them.
    if (found.size === MAX_MENTIONS || ++lookups > 2 * MAX_MENTIONS) break;
    if (found.has(name)) continue;
    const bare = name.replace(TRAILING, "");
    if (isMember(name)) found.add(name);
    else if (bare !== name && bare !== "" && isMember(bare)) found.add(bare);
  }
  return [...found];
}

/** The text with a placeholder in each mention of a user who is erased. */
export function withoutMention(text: string, userId: string, placeholder: string): string {
  return text.replaceAll(MENTION, (whole: string, name: string) =>
    name === userId || name.replace(TRAILING, "") === userId ? `@${placeholder}${name.slice(userId.length)}` : whole,
  );
}

/** The index from users to messages that mention them, for counting unread mentions. */
export function mentionStore({ $client: client }: Db) {
  const insert = changing(client, "INSERT INTO message_mentions VALUES (?, ?, ?)");
  const remove = changing(client, "DELETE FROM message_mentions WHERE conversation_id = ? AND ordinal = ?");
  return {
    insert: (unit: Unit, conversationId: string, userId: string, ordinal: number) =>
      void insert.run(unit, conversationId, userId, ordinal),
    remove: (unit: Unit, conversationId: string, ordinal: number) => void remove.run(unit, conversationId, ordinal),
  };
}
