import { mayPublish } from "../../../src/protocol/may-publish.ts";
import type { Permissions, TrackKind } from "../../../src/protocol/room-records.ts";
import { StoaError } from "../errors.ts";

/** A refusal before a camera is opened, rather than after. */
export function requirePublish(permissions: Permissions | null, kind: TrackKind): void {
  if (permissions && mayPublish(permissions, kind)) return;
  throw new StoaError("PERMISSION_DENIED", "not-allowed", `This token does not permit publishing ${kind}.`);
}
