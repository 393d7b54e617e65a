import type { SubscriptionPermission } from "@livekit/protocol";
import { foreignName } from "../../protocol/ids.ts";
import { sessionIdOf, trackIdOf } from "../../protocol/media/livekit-sids.ts";
import type { RtcSession } from "../signaling/rtc-session.ts";

type Allowed = "all" | ReadonlySet<string>;
export type PermissionsState = { allParticipants: boolean; allowed: [receiver: string, tracks: "all" | string[]][] };

/** Which participants may receive a client's tracks; by default all of them. */
export class SubscriptionPermissions {
  readonly #allParticipants: boolean;
  /** Permissions by identity, and by session id for clients that refer to participants by their SID. */
  readonly #allowed = new Map<string, Allowed>();

  constructor(before: PermissionsState = { allParticipants: true, allowed: [] }) {
    this.#allParticipants = before.allParticipants;
    for (const [id, tracks] of before.allowed) this.#allowed.set(id, tracks === "all" ? tracks : new Set(tracks));
  }

  state(): PermissionsState {
    const allowed = [...this.#allowed].map(([id, tracks]): PermissionsState["allowed"][number] => [
      id,
      tracks === "all" ? tracks : [...tracks],
    ]);
    return { allParticipants: this.#allParticipants, allowed };
  }

  mayReceive({ identity, id }: RtcSession, trackId: string): boolean {
    if (this.#allParticipants) return true;
    const allowed = this.#allowed.get(identity) ?? this.#allowed.get(id);
    return allowed === "all" || (allowed?.has(trackId) ?? false);
  }
}

export function requestedPermissions({
  allParticipants,
  trackPermissions,
}: SubscriptionPermission): SubscriptionPermissions {
  return new SubscriptionPermissions({
    allParticipants,
    allowed: trackPermissions.map(({ participantIdentity, participantSid, allTracks, trackSids }) => [
      foreignName(participantIdentity) ?? sessionIdOf(participantSid) ?? "",
      allTracks ? "all" : trackSids.map(trackIdOf),
    ]),
  });
}
