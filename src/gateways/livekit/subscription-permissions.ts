import type { SubscriptionPermission } from "@livekit/protocol";
import { foreignName } from "../../protocol/ids.ts";
import { sessionIdOf, trackIdOf } from "../../protocol/media/livekit-sids.ts";
import type { RtcSession } from "../signaling/rtc-session.ts";

type Allowed = "all" | ReadonlySet<string>;

/** The participants that a client allows to receive its tracks: all of them by default. */
export class SubscriptionPermissions {
  #allParticipants = true;
  /** Permissions by identity, and by session id for clients that refer to participants by their SID. */
  #allowed = new Map<string, Allowed>();

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
