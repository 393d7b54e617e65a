import type { PushKind } from "./push.table.ts";

/**
 * What replaces each other, as push services take it: at most 32 characters of base64url (RFC 8030). Of a conversation
 * the last message is enough, but a mention is not lost behind it; a missed call takes the place of its ring.
 */
export function topicOf(kind: PushKind, subjectId: string): string {
  const about = kind === "missed_call" ? "ring" : kind;
  return new Bun.CryptoHasher("sha256").update(`${about} ${subjectId}`).digest("base64url").slice(0, 32);
}
