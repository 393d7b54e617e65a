import type { Tenant } from "../../kernel/tenant.ts";
import { type CallNote, callText } from "../chat/calls/call-message.ts";
import { withoutMention } from "../chat/messages/mentions.ts";

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

/** What stands beside a name and says more about the person. */
const ABOUT_THEM: Record<string, unknown> = { metadata: null, name: null, attributes: {} };

/** A copy in which nobody of that name occurs; what is told about them and their file are gone with it. */
export function withoutName(value: unknown, userId: string): unknown {
  if (Array.isArray(value)) return value.map((one) => (one === userId ? ERASED : withoutName(one, userId)));
  if (value === null || typeof value !== "object") return value;
  const theirs = Object.entries(value).some(([name, one]) => NAMING.has(name) && one === userId);
  const copy: Record<string, unknown> = Object.fromEntries(
    Object.entries(value).map(([name, one]) => {
      if (NAMING.has(name) && one === userId) return [name, ERASED];
      if (name === "attachment" && (one as { uploaderId?: unknown } | null)?.uploaderId === userId) return [name, null];
      if (name === "text" && typeof one === "string" && mentioned(value, userId)) {
        return [name, withoutMention(one, userId, ERASED)];
      }
      return [name, theirs && name in ABOUT_THEM ? ABOUT_THEM[name] : withoutName(one, userId)];
    }),
  );
  const note = callNoteOf(copy);
  // The text of a message about a call is made of the names in it.
  return note === null || isSame(note, callNoteOf(value)) ? copy : { ...copy, text: callText(note) };
}

function callNoteOf(message: object): CallNote | null {
  if (!("type" in message && message.type === "event" && "metadata" in message)) return null;
  return (message.metadata as { call?: CallNote } | null)?.call ?? null;
}

function isSame(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function mentioned(message: object, userId: string): boolean {
  return "mentions" in message && Array.isArray(message.mentions) && message.mentions.includes(userId);
}

/** Whether a field of it names that person; a room that is called like them does not. */
export function isNamed(value: unknown, userId: string): boolean {
  return !isSame(withoutName(value, userId), value);
}
