import type { Now } from "../../kernel/clock.ts";
import { tokensValidFrom } from "../../kernel/data-directory/installation.ts";
import type { ChatTokenCaller } from "../../kernel/http/callers.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { ChatScope, Environment } from "../../protocol/enums.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { ChatTokenStore } from "./store/token.store.ts";

type ChatTokenVerifier = (token: string) => Promise<ChatTokenCaller>;

const CACHED_TOKENS = 10_000;
/** No chat token lives longer; a revocation is of no use after that. */
const LONGEST_LIFE_MS = 21_600_000;
const SWEEP_EVERY_MS = 60_000;

/**
 * Tokens that must not be taken, each for as long as it could be. They are known by a number: it lies in the map itself,
 * where each text would hold on to a block of the heap that is free but for that.
 */
export function createRevocations(now: Now) {
  const until = new Map<number, number>();
  let sweptAt = now();
  return {
    /** How many are kept. */
    get size(): number {
      return until.size;
    },
    has: (tokenId: string) => until.has(numberOf(tokenId)),
    add(tokenId: string, expiresAt: number): void {
      until.set(numberOf(tokenId), expiresAt);
      if (Math.abs(now() - sweptAt) < SWEEP_EVERY_MS) return;
      sweptAt = now();
      for (const [id, at] of until) if (at <= now()) until.delete(id);
    },
  };
}

/** Ids are random, and ours: with a million revoked, one token in nine thousand millions has the number of one of them. */
function numberOf(tokenId: string): number {
  return Number(BigInt.asUintN(53, BigInt(Bun.hash(tokenId))));
}

/**
 * Signature and expiry are in the token; what was revoked before its time is kept in memory, so that a request costs
 * no query. A token that was verified once is remembered, since clients send the same one again and again.
 */
export function createChatTokenVerifier(
  { bus, db, jwt, now }: Runtime,
  store: ChatTokenStore,
  isArchived: (projectId: string) => boolean,
): ChatTokenVerifier {
  const revoked = createRevocations(now);
  for (const { id, expiresAt } of store.revoked(now())) revoked.add(id, expiresAt);
  const verified = new Map<string, ChatTokenCaller>();
  bus.on("chatTokenRevoked", ({ tokenId }) => revoked.add(tokenId, now() + LONGEST_LIFE_MS));
  bus.on("calm", () => verified.clear());
  // Those of before a restore: which of them were revoked after the backup was made, nobody knows any more.
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
      expiresAt: claims.exp * 1000,
    };
    if (verified.size >= CACHED_TOKENS) verified.clear();
    verified.set(token, caller);
    return caller;
  }

  return async (token) => {
    const caller = verified.get(token) ?? (await read(token));
    if (caller.expiresAt <= now()) throw new ApiError("SVC_TOKEN_EXPIRED");
    if (revoked.has(caller.tokenId)) throw new ApiError("SVC_TOKEN_REVOKED");
    if (isArchived(caller.projectId)) throw new ApiError("SVC_AUTH_ERROR");
    return caller;
  };
}
