import type { RtcTokenService } from "../../../features/rooms/rtc-token.service.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { every } from "../../../kernel/time/timers.ts";
import type { Visitor } from "../visitor/visitor.ts";
import { type LivekitToken, type Signers, TOKEN_ID_CLAIM } from "./claims.ts";
import type { WriteToken } from "./issued-token.ts";

const REFRESH_EVERY_MS = 5 * 60_000;
const VALID_MS = 10 * 60_000;

type RefreshDeps = { apiKeys: Signers; rtcTokens: RtcTokenService; writeToken: WriteToken };

/**
 * Clients stay longer than their tokens live, and come back with the last one that they were given: so they are given new
 * ones. Each stands on record as the first, which makes a removal hold for all of them.
 */
export function createTokenRefresh(runtime: Runtime, { apiKeys, rtcTokens, writeToken }: RefreshDeps) {
  const { now, write } = runtime;

  async function refresh({ key, claims, identity, expiresAt }: LivekitToken, visitor: Visitor): Promise<void> {
    const { session } = visitor;
    const { tokenId, name, metadata, attributes } = session;
    if (session.link.state !== "attached" || !apiKeys.signer(key.publicId) || rtcTokens.isRevoked(tokenId)) return;
    const until = Math.max(expiresAt, now() + VALID_MS);
    if (until > expiresAt) await write((unit) => void rtcTokens.extend(unit, tokenId, until));
    const current = { name: name ?? "", metadata: metadata ?? "", attributes, [TOKEN_ID_CLAIM]: tokenId };
    const value = await writeToken(key.publicId, identity, { ...claims, ...current }, until);
    visitor.send({ case: "refreshToken", value });
  }

  /** Now and from then on, until the answer is called. */
  return (token: LivekitToken, visitor: Visitor): (() => void) => {
    const failed = (err: unknown) => runtime.log.error({ err }, "a LiveKit client got no new token");
    refresh(token, visitor).catch(failed);
    return every(runtime, REFRESH_EVERY_MS, () => refresh(token, visitor));
  };
}
