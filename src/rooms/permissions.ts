import type { Permissions } from "../protocol/room-records.ts";

const PERMISSION_DEFAULTS: Permissions = {
  join: true,
  subscribe: true,
  publish: false,
  publishAudio: false,
  publishVideo: false,
  publishData: false,
  updateMetadata: false,
};

/** Every field present: what was asked for, and the default where nothing was. */
export function resolvePermissions(
  asked: Partial<Permissions> = {},
  base: Permissions = PERMISSION_DEFAULTS,
): Permissions {
  const pick = (name: keyof Permissions) => asked[name] ?? base[name];
  return {
    join: pick("join"),
    subscribe: pick("subscribe"),
    publish: pick("publish"),
    publishAudio: pick("publishAudio"),
    publishVideo: pick("publishVideo"),
    publishData: pick("publishData"),
    updateMetadata: pick("updateMetadata"),
  };
}
