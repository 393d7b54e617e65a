import { Value } from "@sinclair/typebox/value";
import type { RtcTokenCaller } from "../kernel/http/callers.ts";
import type { Environment } from "../protocol/enums.ts";
import { ApiError } from "../protocol/errors.ts";
import { Permissions } from "../protocol/room-records.ts";
import type { Runtime } from "../runtime.ts";
import type { rtcTokenStore } from "./rtc-token.store.ts";

export type RtcTokenVerifier = (token: string) => Promise<RtcTokenCaller>;

/** Signature, expiry, then the record: a token that was revoked, or that no record knows, counts for nothing. */
export function createRtcTokenVerifier({ jwt }: Runtime, store: ReturnType<typeof rtcTokenStore>): RtcTokenVerifier {
  return async (token) => {
    const claims = await jwt.verify("rtc-token", token);
    const row = store.find(claims.jti);
    if (!row) throw new ApiError("SVC_AUTH_ERROR");
    if (row.revokedAt !== null) throw new ApiError("SVC_TOKEN_REVOKED");
    return {
      kind: "rtcToken",
      tokenId: claims.jti,
      projectId: String(claims.projectId),
      environment: claims.environment as Environment,
      roomId: row.roomId,
      participantIdentity: row.participantIdentity,
      permissions: Value.Decode(Permissions, claims.permissions),
      metadata: typeof claims.metadata === "string" ? claims.metadata : null,
      expiresAt: claims.exp * 1000,
    };
  };
}
