import { withoutMention } from "../chat/messages/mentions.ts";
import type { Tenant } from "../kernel/tenant.ts";

/** Somebody who uses the developer's application: the same string in chat and in rooms, within one environment. */
export type Person = Tenant & { userId: string };

/** Stands where a name has to stand and the person is erased. No identity can be spelled like that. */
export const ERASED = "(erased)";

/** Fields of events and records whose value names a person. */
const NAMING = new Set([
  "userId",
  "senderId",
  "identity",
  "uploaderId",
  "hostIdentity",
  "deletedBy",
  "callerId",
  "reporterId",
]);

/** A copy in which nobody of that name occurs; their metadata and their file are gone with it. */
export function withoutName(value: unknown, userId: string): unknown {
  if (Array.isArray(value)) return value.map((one) => (one === userId ? ERASED : withoutName(one, userId)));
  if (value === null || typeof value !== "object") return value;
  const theirs = Object.entries(value).some(([name, one]) => NAMING.has(name) && one === userId);
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => {
      if (NAMING.has(name) && one === userId) return [name, ERASED];
      if (name === "attachment" && (one as { uploaderId?: unknown } | null)?.uploaderId === userId) return [name, null];
      if (name === "text" && typeof one === "string" && mentioned(value, userId)) {
        return [name, withoutMention(one, userId, ERASED)];
      }
      return [name, theirs && name === "metadata" ? null : withoutName(one, userId)];
    }),
  );
}

function mentioned(message: object, userId: string): boolean {
  return "mentions" in message && Array.isArray(message.mentions) && message.mentions.includes(userId);
}

/** Whether a field of it names that person; a room that is called like them does not. */
export function isNamed(value: unknown, userId: string): boolean {
  return JSON.stringify(withoutName(value, userId)) !== JSON.stringify(value);
}
