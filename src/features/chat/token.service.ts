import { iso } from "../../kernel/clock.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import type { ChatToken } from "../../protocol/chat-records.ts";
import { CHAT_SCOPES, type ChatScope } from "../../protocol/enums.ts";
import { ApiError, invalid } from "../../protocol/errors.ts";
import type { ConversationStore } from "./store/conversation.store.ts";
import { chatTokenStore } from "./store/token.store.ts";
import { createChatTokenVerifier } from "./token.verify.ts";

export type MintChatToken = { userId: string; conversations?: string[]; scopes?: string[]; ttlSeconds?: number };

/** A token that is on record but not signed yet: signing waits, and a unit of work must not. */
export type ChatGrant = Tenant & {
  tokenId: string;
  userId: string;
  scopes: ChatScope[];
  conversations: { id: string; publicId: string }[] | null;
  expiresAt: number;
};

type ChatTokenDeps = { conversations: ConversationStore; isArchived: (projectId: string) => boolean };

const MIN_TTL_SECONDS = 60;

export function chatTokenService(runtime: Runtime, { conversations, isArchived }: ChatTokenDeps) {
  const { bus, config, db, ids, jwt, now } = runtime;
  const store = chatTokenStore(db);
  const { CHAT_TOKEN_MAX_TTL_SECONDS, CHAT_TOKEN_DEFAULT_TTL_SECONDS } = config;
  const defaultTtl = Math.min(CHAT_TOKEN_DEFAULT_TTL_SECONDS, CHAT_TOKEN_MAX_TTL_SECONDS);

  function lifetime(ttlSeconds: number = defaultTtl): number {
    if (ttlSeconds < MIN_TTL_SECONDS || ttlSeconds > CHAT_TOKEN_MAX_TTL_SECONDS) {
      throw invalid("ttlSeconds", `must be a whole number from ${MIN_TTL_SECONDS} to ${CHAT_TOKEN_MAX_TTL_SECONDS}`);
    }
    return ttlSeconds;
  }

  function revoke(unit: Unit, tokenId: string): void {
    store.revoke(unit, tokenId, now());
    bus.announce(unit, "chatTokenRevoked", { tokenId });
  }

  return {
    verify: createChatTokenVerifier(runtime, store, isArchived),

    /** Puts the token on record; `sign` then makes the answer of it. */
    mint(unit: Unit, { projectId, environment }: Tenant, input: MintChatToken): ChatGrant {
      const unknown = input.scopes?.find((scope) => !(CHAT_SCOPES as readonly string[]).includes(scope));
      if (unknown !== undefined) throw invalid("scopes", `must be of ${CHAT_SCOPES.join(", ")}`);
      const named = input.conversations?.map((reference) => {
        const row = conversations.resolve({ projectId, environment }, reference);
        if (!row) throw new ApiError("SVC_CONVERSATION_NOT_FOUND");
        return { id: row.id, publicId: row.publicId };
      });
      // Whole seconds, like the signature's: the answer and the token name the same moment.
      const createdAt = Math.floor(now() / 1000) * 1000;
      const grant: ChatGrant = {
        projectId,
        environment,
        tokenId: ids.publicId("chatToken"),
        userId: input.userId,
        scopes: CHAT_SCOPES.filter((scope) => input.scopes?.includes(scope) ?? true),
        conversations: named ?? null,
        expiresAt: createdAt + lifetime(input.ttlSeconds) * 1000,
      };
      const { tokenId: id, userId, expiresAt } = grant;
      store.insert(unit, { id, projectId, environment, userId, createdAt, expiresAt, revokedAt: null });
      return grant;
    },

    /** `publicUrl` is where this client reaches the server. */
    async sign(grant: ChatGrant, publicUrl: string): Promise<ChatToken> {
      const { projectId, environment, tokenId, userId, scopes, conversations: named, expiresAt } = grant;
      const claims = {
        sub: userId,
        projectId,
        environment,
        scopes,
        ...(named ? { conversations: named.map(({ id }) => id) } : {}),
      };
      return {
        token: await jwt.sign("chat-token", tokenId, claims, expiresAt),
        tokenId,
        userId,
        scopes: shownScopes(scopes),
        conversations: named?.map(({ publicId }) => publicId) ?? null,
        endpoint: `${publicUrl.replace(/^http/, "ws")}/v1/chat/ws`,
        expiresAt: iso(expiresAt),
      };
    },

    /** Ends the token and the sockets it opened. Again: no effect. */
    revoke(unit: Unit, { projectId, environment }: Tenant, tokenId: string): void {
      const row = store.find(tokenId);
      if (row?.projectId !== projectId || row.environment !== environment) {
        throw new ApiError("SVC_CHAT_TOKEN_NOT_FOUND");
      }
      if (row.revokedAt === null) revoke(unit, tokenId);
    },

    /** Every token with which this user could still come. */
    revokeUser(unit: Unit, tenant: Tenant, userId: string): void {
      for (const tokenId of store.usable(tenant, userId, now())) revoke(unit, tokenId);
    },

    /** Forgets tokens that are over; called by a job. */
    sweep: (unit: Unit) => store.removeExpired(unit, now()),
  };
}

/** Only a role gives `chat:manage`, conversation by conversation; a token never claims to. */
export function shownScopes(scopes: readonly ChatScope[]): ChatScope[] {
  return scopes.filter((scope) => scope !== "chat:manage");
}
