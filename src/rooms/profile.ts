import { invalid } from "../protocol/errors.ts";
import { ATTRIBUTES_MAX_BYTES, DISPLAY_NAME_MAX_CHARACTERS, type Profile } from "../protocol/room-records.ts";

/** Of whoever's token says nothing about it. */
export const NO_PROFILE: Profile = { name: null, attributes: {}, kind: "standard" };

/** Any text; characters are code points, and an empty string counts as absent. */
export function checkedDisplayName(name: string | null): string | null {
  if (name === null || name === "") return null;
  if (name.length > DISPLAY_NAME_MAX_CHARACTERS && [...name].length > DISPLAY_NAME_MAX_CHARACTERS) {
    throw invalid("name", `must have at most ${DISPLAY_NAME_MAX_CHARACTERS} characters`);
  }
  return name;
}

/** What is there with what changes: an empty value takes the key away. */
export function mergedAttributes(
  known: Record<string, string>,
  change: Record<string, string>,
): Record<string, string> {
  const merged = { ...known, ...change };
  const attributes = Object.fromEntries(Object.entries(merged).filter(([key, value]) => key !== "" && value !== ""));
  if (Buffer.byteLength(JSON.stringify(attributes)) > ATTRIBUTES_MAX_BYTES) {
    throw invalid("attributes", `must have at most ${ATTRIBUTES_MAX_BYTES} bytes as JSON`);
  }
  return attributes;
}
