import { invalid } from "../../protocol/errors.ts";
import {
  ATTRIBUTES_MAX_BYTES,
  DISPLAY_NAME_MAX_CHARACTERS,
  type Permissions,
  type Profile,
  SUBSCRIBE_ONLY,
} from "../../protocol/room-records.ts";

const METADATA_MAX_CHARACTERS = 1024;

/** Takes the fields that `requested` leaves out from `base`. */
export function resolvePermissions(
  requested: Partial<Permissions> = {},
  base: Permissions = SUBSCRIBE_ONLY,
): Permissions {
  const sources = requested.publishSources ?? base.publishSources ?? [];
  const pick = <Name extends keyof Permissions>(name: Name): Permissions[Name] => requested[name] ?? base[name];
  return {
    join: pick("join"),
    subscribe: pick("subscribe"),
    publish: pick("publish"),
    publishAudio: pick("publishAudio"),
    publishVideo: pick("publishVideo"),
    publishData: pick("publishData"),
    updateMetadata: pick("updateMetadata"),
    ...(pick("host") && { host: true }),
    ...(pick("admit") && { admit: true }),
    ...(sources.length > 0 && { publishSources: sources }),
  };
}

/** The profile of a participant whose token has none. */
export const NO_PROFILE: Profile = { name: null, attributes: {}, kind: "standard" };

/** Lengths are in code points; an empty string counts as absent. */
export function checkedMetadata(metadata: string | null): string | null {
  if (metadata === null || metadata === "") return null;
  if (metadata.length > METADATA_MAX_CHARACTERS && [...metadata].length > METADATA_MAX_CHARACTERS) {
    throw invalid("metadata", `must have at most ${METADATA_MAX_CHARACTERS} characters`);
  }
  return metadata;
}

export function checkedDisplayName(name: string | null): string | null {
  if (name === null || name === "") return null;
  if (name.length > DISPLAY_NAME_MAX_CHARACTERS && [...name].length > DISPLAY_NAME_MAX_CHARACTERS) {
    throw invalid("name", `must have at most ${DISPLAY_NAME_MAX_CHARACTERS} characters`);
  }
  return name;
}

/** An empty value removes its key. */
export function mergedAttributes(
  current: Record<string, string>,
  change: Record<string, string>,
): Record<string, string> {
  const merged = { ...current, ...change };
  const attributes = Object.fromEntries(Object.entries(merged).filter(([key, value]) => key !== "" && value !== ""));
  if (Buffer.byteLength(JSON.stringify(attributes)) > ATTRIBUTES_MAX_BYTES) {
    throw invalid("attributes", `must have at most ${ATTRIBUTES_MAX_BYTES} bytes as JSON`);
  }
  return attributes;
}
