import type { SubscriptionPermission } from "@livekit/protocol";
import { foreignName } from "../../protocol/ids.ts";
import { sessionIdOf, trackIdOf } from "../../protocol/media/livekit-sids.ts";
import type { RtcSession } from "../signaling/rtc-session.ts";

type Allowed = "all" | ReadonlySet<string>;
export type PermissionsState = { allParticipants: boolean; allowed: [receiver: string, tracks: "all" | string[]][] };

/** Which participants may receive a client's tracks; by default all of them. */
export class SubscriptionPermissions {
  #allParticipants: boolean;
  /** Permissions by identity, and by session id for clients that refer to participants by their SID. */
  #allowed = new Map<string, Allowed>();

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

  set({ allParticipants, trackPermissions }: SubscriptionPermission): void {
    this.#allParticipants = allParticipants;
    this.#allowed = new Map(
      trackPermissions.map(({ participantIdentity, participantSid, allTracks, trackSids }) => [
        foreignName(participantIdentity) ?? sessionIdOf(participantSid) ?? "",
        allTracks ? "all" : new Set(trackSids.map(trackIdOf)),
      ]),
    );
  }

  mayReceive({ identity, id }: RtcSession, trackId: string): boolean {
    if (this.#allParticipants) return true;
    const allowed = this.#allowed.get(identity) ?? this.#allowed.get(id);
    return allowed === "all" || (allowed?.has(trackId) ?? false);
  }
}
