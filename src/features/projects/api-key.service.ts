import { randomBytes } from "node:crypto";
import { type Author, COMMAND_LINE } from "../../kernel/author.ts";
import { randomBase62 } from "../../kernel/crypto/ids.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { ApiKeyCaller } from "../../kernel/http/callers.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { iso } from "../../kernel/time/clock.ts";
import type { Environment } from "../../protocol/enums.ts";
import { ApiError } from "../../protocol/errors.ts";
import { type ApiKeyRow, apiKeyStore } from "./api-key.store.ts";
import { createApiKeyVerifier, ENVIRONMENT_IN_KEY } from "./api-key.verify.ts";

export type ApiKeyService = ReturnType<typeof apiKeyService>;

export function apiKeyService(runtime: Runtime) {
  const { db, bus, ids, keyring, now } = runtime;
  const store = apiKeyStore(db);

  /**
   * The secret for signing LiveKit tokens. It is derived from the key's id, so every key has one and none is stored.
   */
  const signingSecretOf = ({ publicId, createdAt }: Pick<ApiKeyRow, "publicId" | "createdAt">): string =>
    new Bun.CryptoHasher("sha256", keyring.keyAt("livekit-secret", createdAt)).update(publicId).digest("hex");

  const audit = (
    unit: Unit,
    action: "api_key.created" | "api_key.revoked" | "api_key.secret_shown",
    { id, publicId, projectId, environment }: ApiKeyRow,
    author: Author,
  ) =>
    bus.publish(unit, "audit", {
      ...author,
      environment,
      action,
      projectId,
      resourceId: id,
      metadata: { publicId },
      at: now(),
    });

  return {
    verify: createApiKeyVerifier(runtime, store),

    list: store.list,
    present,

    signingSecret: (publicId: string): string =>
      signingSecretOf(store.findUsable(publicId) ?? { publicId, createdAt: now() }),

    /** A key for LiveKit's webhooks; null unless it is an active key of this project and environment. */
    livekitKey({ projectId, environment }: Tenant, keyId: string): { apiKey: string; apiSecret: string } | null {
      const key = store.find(projectId, keyId);
      if (!key || key.revokedAt !== null || key.environment !== environment) return null;
      return { apiKey: key.publicId, apiSecret: signingSecretOf(key) };
    },

    /** The caller of tokens that are signed with this key's signing secret; null when the key is not usable. */
    signer(publicId: string): ApiKeyCaller | null {
      const row = store.findUsable(publicId);
      if (!row) return null;
      const { id: keyId, name, projectId, environment } = row;
      return { kind: "apiKey", keyId, publicId, name, projectId, environment };
    },

    /** The action is audited, because the secret can sign any token of the project. */
    revealSigningSecret(unit: Unit, projectId: string, keyId: string, author: Author = COMMAND_LINE) {
      const key = store.find(projectId, keyId);
      if (!key || key.revokedAt !== null) throw new ApiError("SVC_API_KEY_NOT_FOUND");
      audit(unit, "api_key.secret_shown", key, author);
      return { apiKey: key.publicId, apiSecret: signingSecretOf(key) };
    },

    /** Only this response contains the whole key: the server stores a digest of its secret. */
    create(
      unit: Unit,
      projectId: string,
      input: { name: string; environment: Environment },
      author: Author = COMMAND_LINE,
    ) {
      const publicId = randomBase62(16);
      const secret = randomBytes(32).toString("base64url");
      const row: ApiKeyRow = {
        id: ids.uuid(),
        projectId,
        publicId,
        secretDigest: keyring.digest("api-key", secret),
        name: input.name,
        environment: input.environment,
        lastUsedAt: null,
        createdAt: now(),
        revokedAt: null,
      };
      store.insert(unit, row);
      audit(unit, "api_key.created", row, author);
      return { ...present(row), key: `svk_${ENVIRONMENT_IN_KEY[row.environment]}_${publicId}.${secret}` };
    },

    /** Revoking a key again has no effect; `revoked` is then false. */
    revoke(
      unit: Unit,
      projectId: string,
      keyId: string,
      author: Author = COMMAND_LINE,
    ): { revoked: boolean; key: ApiKeyRow } {
      const key = store.find(projectId, keyId);
      if (!key) throw new ApiError("SVC_API_KEY_NOT_FOUND");
      if (key.revokedAt !== null) return { revoked: false, key };
      store.revoke(unit, key.id, now());
      bus.publish(unit, "apiKeyRevoked", { publicId: key.publicId, projectId });
      audit(unit, "api_key.revoked", key, author);
      return { revoked: true, key };
    },
  };
}

function present(row: ApiKeyRow) {
  return {
    id: row.id,
    projectId: row.projectId,
    publicId: row.publicId,
    name: row.name,
    environment: row.environment,
    status: row.revokedAt === null ? ("ACTIVE" as const) : ("REVOKED" as const),
    lastUsedAt: iso(row.lastUsedAt),
    createdAt: iso(row.createdAt),
    revokedAt: iso(row.revokedAt),
  };
}
