import { ERASED } from "../../kernel/personal-data.ts";
import { type CallNote, callText } from "./calls/call-note.ts";
import { withoutMention } from "./messages/mentions.ts";

/** Fields of events and records whose value is a user id. */
const USER_ID_FIELDS = new Set([
  "userId",
  "senderId",
  "identity",
  "uploaderId",
  "hostIdentity",
  "deletedBy",
  "callerId",
  "reporterId",
]);

/** Fields with personal data in an object that has the user's id, and the values that replace them on erasure. */
const FIELDS_ABOUT_USER: Record<string, unknown> = {
  metadata: null,
  name: null,
  senderName: ERASED,
  attributes: {},
};

/** A copy of an event or record without the user's id, personal fields, mentions and attachment. */
export function withoutUser(value: unknown, userId: string): unknown {
  if (Array.isArray(value)) return value.map((one) => (one === userId ? ERASED : withoutUser(one, userId)));
  if (value === null || typeof value !== "object") return value;
  const isAboutUser = Object.entries(value).some(([name, one]) => USER_ID_FIELDS.has(name) && one === userId);
  const copy: Record<string, unknown> = Object.fromEntries(
    Object.entries(value).map(([name, one]) => {
      if (USER_ID_FIELDS.has(name) && one === userId) return [name, ERASED];
      if (name === "attachment" && (one as { uploaderId?: unknown } | null)?.uploaderId === userId) return [name, null];
      if (name === "text" && typeof one === "string" && mentions(value, userId)) {
        return [name, withoutMention(one, userId, ERASED)];
      }
      if (isAboutUser && name in FIELDS_ABOUT_USER) return [name, FIELDS_ABOUT_USER[name]];
      return [name, withoutUser(one, userId)];
    }),
  );
  const note = callNoteOf(copy);
  // The text of a message about a call is made of the user ids in its note.
  return note === null || isSame(note, callNoteOf(value)) ? copy : { ...copy, text: callText(note) };
}

/** Whether a field of an event or record contains the user id. A room with the same name is ignored. */
export function namesUser(value: unknown, userId: string): boolean {
  return !isSame(withoutUser(value, userId), value);
}

export function callNoteWithoutUser(note: CallNote, userId: string): CallNote {
  return {
    ...note,
    callerId: note.callerId === userId ? null : note.callerId,
    participants: note.participants.map((name) => (name === userId ? ERASED : name)),
    missed: note.missed?.filter((name) => name !== userId) ?? null,
  };
}

function callNoteOf(message: object): CallNote | null {
  if (!("type" in message && message.type === "event" && "metadata" in message)) return null;
  return (message.metadata as { call?: CallNote } | null)?.call ?? null;
}

function mentions(message: object, userId: string): boolean {
  return "mentions" in message && Array.isArray(message.mentions) && message.mentions.includes(userId);
}

function isSame(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
