import type { Author } from "../../../kernel/author.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { sameTenant, type Tenant } from "../../../kernel/tenant.ts";
import { iso } from "../../../kernel/time/clock.ts";
import type { ChatToken } from "../../../protocol/chat-records.ts";
import { CHAT_SCOPES, type ChatScope } from "../../../protocol/enums.ts";
import { ApiError, invalid } from "../../../protocol/errors.ts";
import type { MintChatToken } from "../chat.schema.ts";
import type { ConversationStore } from "../conversations/conversation.store.ts";
import { chatTokenStore } from "./token.store.ts";
import { createChatTokenVerifier, KEEP_PUSH } from "./token.verify.ts";

/** A token that is stored but not signed yet: signing is asynchronous, and a unit of work is not. */
export type ChatGrant = Tenant & {
  tokenId: string;
  userId: string;
  scopes: ChatScope[];
  conversations: { id: string; publicId: string }[] | null;
  keepsPush: boolean;
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
    bus.publish(unit, "chatTokenRevoked", { tokenId });
  }

  return {
    ...createChatTokenVerifier(runtime, store, isArchived),

    /** Stores the token; `sign` then makes the response. */
    mint(unit: Unit, { projectId, environment }: Tenant, input: MintChatToken): ChatGrant {
      const unknown = input.scopes?.find((scope) => !(CHAT_SCOPES as readonly string[]).includes(scope));
      if (unknown !== undefined) throw invalid("scopes", `must be of ${CHAT_SCOPES.join(", ")}`);
      const conversationRefs = input.conversations?.map((reference) => {
        const row = conversations.resolve({ projectId, environment }, reference);
        if (!row) throw new ApiError("SVC_CONVERSATION_NOT_FOUND");
        return { id: row.id, publicId: row.publicId };
      });
      // The times in a JWT are whole seconds, and the response must show the same times.
      const createdAt = Math.floor(now() / 1000) * 1000;
      const grant: ChatGrant = {
        projectId,
        environment,
        tokenId: ids.publicId("chatToken"),
        userId: input.userId,
        scopes: CHAT_SCOPES.filter((scope) => input.scopes?.includes(scope) ?? true),
        conversations: conversationRefs ?? null,
        keepsPush: input.push === KEEP_PUSH,
        expiresAt: createdAt + lifetime(input.ttlSeconds) * 1000,
      };
      const { tokenId: id, userId, expiresAt } = grant;
      store.insert(unit, { id, projectId, environment, userId, createdAt, expiresAt, revokedAt: null });
      return grant;
    },

    /** `publicUrl` is the URL at which this client reaches the server. */
    async sign(grant: ChatGrant, publicUrl: string): Promise<ChatToken> {
      const { projectId, environment, tokenId, userId, scopes, conversations: refs, expiresAt } = grant;
      const claims = {
        sub: userId,
        projectId,
        environment,
        scopes,
        ...(refs ? { conversations: refs.map(({ id }) => id) } : {}),
        ...(grant.keepsPush ? { push: KEEP_PUSH } : {}),
      };
      return {
        token: await jwt.sign("chat-token", tokenId, claims, expiresAt),
        tokenId,
        userId,
        scopes: publicScopes(scopes),
        conversations: refs?.map(({ publicId }) => publicId) ?? null,
        endpoint: `${publicUrl.replace(/^http/, "ws")}/v1/chat/ws`,
        expiresAt: iso(expiresAt),
      };
    },

    /** Revokes the token, closes its sockets and ends its push subscriptions. A repeated revocation changes nothing. */
    revoke(unit: Unit, tenant: Tenant, tokenId: string, author: Author | null = null): void {
      const row = store.find(tokenId);
      if (!row || !sameTenant(row, tenant)) throw new ApiError("SVC_CHAT_TOKEN_NOT_FOUND");
      if (row.revokedAt !== null) return;
      revoke(unit, tokenId);
      if (!author) return;
      const { projectId, environment } = tenant;
      const entry = { action: "chat_token.revoked", projectId, environment, resourceId: tokenId } as const;
      bus.publish(unit, "audit", { ...author, ...entry, metadata: {}, at: now() });
    },

    revokeUser(unit: Unit, tenant: Tenant, userId: string): void {
      for (const tokenId of store.usable(tenant, userId, now())) revoke(unit, tokenId);
    },

    /** Removes expired tokens; called by a recurring job. */
    sweep: (unit: Unit) => store.removeExpired(unit, now()),
  };
}

/** A token never shows `chat:manage`, because only a role in a conversation grants it. */
export function publicScopes(scopes: readonly ChatScope[]): ChatScope[] {
  return scopes.filter((scope) => scope !== "chat:manage");
}
