import { tokensValidFrom } from "../../kernel/data-directory/installation.ts";
import type { RtcTokenCaller } from "../../kernel/http/callers.ts";
import type { Claims } from "../../kernel/crypto/jwt.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Environment } from "../../protocol/enums.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { Permissions, Profile } from "../../protocol/room-records.ts";
import { NO_PROFILE, resolvePermissions } from "./participant.ts";
import type { rtcTokenStore } from "./store/rtc-token.store.ts";

type RtcTokenVerifier = {
  verify(token: string): Promise<RtcTokenCaller>;
  /** Also one that has expired: a running session is resumed and ended with it. `expiresAt` tells. */
  read(token: string): Promise<RtcTokenCaller>;
};

/** Genuine, but revoked: whose it was is known, and the refusal can be put on their record. */
export class RevokedRtcToken extends ApiError {
  constructor(readonly caller: RtcTokenCaller) {
    super("SVC_TOKEN_REVOKED");
  }
}

/** Signature, expiry, then the record: a token that was revoked, or that no record knows, counts for nothing. */
export function createRtcTokenVerifier(
  { db, jwt }: Runtime,
  store: ReturnType<typeof rtcTokenStore>,
  isArchived: (projectId: string) => boolean,
  held: (roomId: string, identity: string, permissions: Permissions) => Permissions,
): RtcTokenVerifier {
  const validFrom = tokensValidFrom(db);
  function callerOf(claims: Claims): RtcTokenCaller {
    // Of before a restore: whether it was revoked after the backup was made, nobody knows any more.
    if ((claims.iat + 1) * 1000 <= validFrom) throw new ApiError("SVC_TOKEN_REVOKED");
    const row = store.find(claims.jti);
    if (!row) throw new ApiError("SVC_AUTH_ERROR");
    const caller: RtcTokenCaller = {
      kind: "rtcToken",
      tokenId: claims.jti,
      projectId: String(claims.projectId),
      environment: claims.environment as Environment,
      roomId: row.roomId,
      participantIdentity: row.participantIdentity,
      // Ours by its signature; one of an earlier version may lack a name.
      permissions: held(row.roomId, row.participantIdentity, resolvePermissions(claims.permissions as Permissions)),
      metadata: typeof claims.metadata === "string" ? claims.metadata : null,
      profile: { ...NO_PROFILE, ...(claims.profile as Partial<Profile> | undefined) },
      expiresAt: claims.exp * 1000,
    };
    if (row.revokedAt !== null) throw new RevokedRtcToken(caller);
    if (isArchived(caller.projectId)) throw new ApiError("SVC_AUTH_ERROR");
    return caller;
  }
  return {
    verify: async (token) => callerOf(await jwt.verify("rtc-token", token)),
    read: async (token) => callerOf(await jwt.read("rtc-token", token)),
  };
}
