import { tokensValidFrom } from "../../../kernel/data-directory/installation.ts";
import type { ChatTokenCaller } from "../../../kernel/http/callers.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { Now } from "../../../kernel/time/clock.ts";
import type { ChatScope, Environment } from "../../../protocol/enums.ts";
import { ApiError } from "../../../protocol/errors.ts";
import type { ChatTokenStore } from "./token.store.ts";

const CACHED_TOKENS = 10_000;
/** No chat token lives longer, so that its revocation can be dropped after this time. */
const MAX_LIFETIME_MS = 21_600_000;
const SWEEP_EVERY_MS = 60_000;
/** The claim of a token whose push subscriptions outlive it. */
export const KEEP_PUSH = "keep";

/**
 * Revoked tokens, each until it expires. Their ids are hashed to numbers, which the map stores inline; each string
 * would be a separate heap allocation.
 */
export function createRevocationList(now: Now) {
  const until = new Map<number, number>();
  let sweptAt = now();
  return {
    get size(): number {
      return until.size;
    },
    has: (tokenId: string) => until.has(hashOf(tokenId)),
    add(tokenId: string, expiresAt: number): void {
      until.set(hashOf(tokenId), expiresAt);
      if (Math.abs(now() - sweptAt) < SWEEP_EVERY_MS) return;
      sweptAt = now();
      for (const [id, at] of until) if (at <= now()) until.delete(id);
    },
  };
}

/**
 * Token ids are random: with a million revoked tokens, one valid token in nine billion has the hash of a revoked one.
 */
function hashOf(tokenId: string): number {
  return Number(BigInt.asUintN(53, BigInt(Bun.hash(tokenId))));
}

/**
 * Revocations are kept in memory, so that a request needs no query. Verified tokens are cached, because clients send
 * the same token repeatedly.
 */
export function createChatTokenVerifier(
  { bus, db, idleTasks, jwt, now }: Runtime,
  store: ChatTokenStore,
  isArchived: (projectId: string) => boolean,
) {
  const revoked = createRevocationList(now);
  for (const { id, expiresAt } of store.revoked(now())) revoked.add(id, expiresAt);
  const verified = new Map<string, ChatTokenCaller>();
  bus.on("chatTokenRevoked", ({ tokenId }) => revoked.add(tokenId, now() + MAX_LIFETIME_MS));
  idleTasks.add(() => verified.clear());
  // After a restore, older tokens are rejected, because revocations after the backup are not known.
  const validFrom = tokensValidFrom(db);

  async function read(token: string): Promise<ChatTokenCaller> {
    const claims = await jwt.verify("chat-token", token);
    if ((claims.iat + 1) * 1000 <= validFrom) throw new ApiError("SVC_TOKEN_REVOKED");
    const caller: ChatTokenCaller = {
      kind: "chatToken",
      tokenId: claims.jti,
      projectId: String(claims.projectId),
      environment: claims.environment as Environment,
      userId: String(claims.sub),
      scopes: claims.scopes as ChatScope[],
      conversations: (claims.conversations ?? null) as string[] | null,
      keepsPush: claims.push === KEEP_PUSH,
      expiresAt: claims.exp * 1000,
    };
    if (verified.size >= CACHED_TOKENS) verified.clear();
    verified.set(token, caller);
    return caller;
  }

  return {
    /** Checked when a socket opens some time after its token was verified. */
    isRevoked: revoked.has,

    async verify(token: string): Promise<ChatTokenCaller> {
      const caller = verified.get(token) ?? (await read(token));
      if (caller.expiresAt <= now()) throw new ApiError("SVC_TOKEN_EXPIRED");
      if (revoked.has(caller.tokenId)) throw new ApiError("SVC_TOKEN_REVOKED");
      if (isArchived(caller.projectId)) throw new ApiError("SVC_AUTH_ERROR");
      return caller;
    },
  };
}
