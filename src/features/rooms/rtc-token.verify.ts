import type { Claims } from "../../kernel/crypto/jwt.ts";
import { tokensValidFrom } from "../../kernel/data-directory/installation.ts";
import type { RtcTokenCaller } from "../../kernel/http/callers.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Environment } from "../../protocol/enums.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { Permissions, Profile } from "../../protocol/room-records.ts";
import { NO_PROFILE, resolvePermissions } from "./participant.ts";
import type { RtcTokenStore } from "./rtc-token.store.ts";

/** A valid token that was revoked. Its caller is known, so the rejection is added to the participant's records. */
export class RevokedRtcToken extends ApiError {
  constructor(readonly caller: RtcTokenCaller) {
    super("SVC_TOKEN_REVOKED");
  }
}

/** Checks the signature, the expiry and the saved row: a token without a row, or a revoked one, is invalid. */
export function createRtcTokenVerifier(
  { db, jwt }: Runtime,
  store: RtcTokenStore,
  isArchived: (projectId: string) => boolean,
  effectivePermissions: (roomId: string, identity: string, permissions: Permissions) => Permissions,
) {
  const validFrom = tokensValidFrom(db);
  function callerOf(claims: Claims): RtcTokenCaller {
    // The token is older than a restored backup, which does not know whether it was revoked afterwards.
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
      // Tokens of an earlier version may lack a permission.
      permissions: effectivePermissions(
        row.roomId,
        row.participantIdentity,
        resolvePermissions(claims.permissions as Permissions),
      ),
      metadata: typeof claims.metadata === "string" ? claims.metadata : null,
      region: typeof claims.region === "string" ? claims.region : null,
      profile: { ...NO_PROFILE, ...(claims.profile as Partial<Profile> | undefined) },
      expiresAt: claims.exp * 1000,
    };
    if (row.revokedAt !== null) throw new RevokedRtcToken(caller);
    if (isArchived(caller.projectId)) throw new ApiError("SVC_AUTH_ERROR");
    return caller;
  }
  return {
    verify: async (token: string) => callerOf(await jwt.verify("rtc-token", token)),
    /** Accepts an expired token too: it can still resume and end a running session. */
    read: async (token: string) => callerOf(await jwt.read("rtc-token", token)),
  };
}
