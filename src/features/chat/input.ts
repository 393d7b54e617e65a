import type { Metadata } from "../../protocol/chat-records.ts";
import { invalid } from "../../protocol/errors.ts";

/** Whether a text has at most `max` characters; a character is a code point, not a UTF-16 unit. */
export function fits(text: string, max: number): boolean {
  if (text.length <= max) return true;
  if (text.length > max * 2) return false;
  let count = 0;
  for (const _ of text) count += 1;
  return count <= max;
}

/** An empty string counts as absent. */
export function emptyAsNull(text: string | null | undefined): string | null {
  return text === undefined || text === null || text === "" ? null : text;
}

/** The developer's JSON in its stored form; its size is measured in UTF-8. */
export function storedMetadata(metadata: Metadata | null | undefined, maxBytes: number): string | null {
  if (metadata === undefined || metadata === null) return null;
  const json = JSON.stringify(metadata);
  if (Buffer.byteLength(json) > maxBytes) throw invalid("metadata", `must have at most ${maxBytes} bytes as JSON`);
  return json;
}
