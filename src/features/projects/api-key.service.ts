import { randomBytes } from "node:crypto";
import { type Author, COMMAND_LINE } from "../../kernel/author.ts";
import { iso } from "../../kernel/clock.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { ApiKeyCaller } from "../../kernel/http/callers.ts";
import { randomBase62 } from "../../kernel/ids.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Environment } from "../../protocol/enums.ts";
import { ApiError } from "../../protocol/errors.ts";
import { createApiKeyVerifier, ENVIRONMENT_IN_KEY } from "./api-key.verify.ts";
import { apiKeyStore } from "./store/api-key.store.ts";
import type { ApiKeyRow } from "./store/api-key.table.ts";

export type ApiKeyService = ReturnType<typeof apiKeyService>;

export function apiKeyService(runtime: Runtime) {
  const { db, bus, ids, keyring, now } = runtime;
  const store = apiKeyStore(db);

  const record = (
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
    show,

    /** Signs tokens of LiveKit's form. Derived, so that nothing of it is stored and every key has one. */
    signingSecret: (publicId: string): string => keyring.digest("livekit-secret", publicId),

    /** Whose tokens those signed under this public id are; null for none that is in use. */
    signer(publicId: string): ApiKeyCaller | null {
      const row = store.findUsable(publicId);
      if (!row) return null;
      return { kind: "apiKey", keyId: row.id, publicId, projectId: row.projectId, environment: row.environment };
    },

    /** What whoever may make keys is shown of one; on record, like its making. */
    showSigningSecret(unit: Unit, projectId: string, keyId: string, author: Author = COMMAND_LINE) {
      const key = store.find(projectId, keyId);
      if (!key || key.revokedAt !== null) throw new ApiError("SVC_API_KEY_NOT_FOUND");
      record(unit, "api_key.secret_shown", key, author);
      return { apiKey: key.publicId, apiSecret: keyring.digest("livekit-secret", key.publicId) };
    },

    /** The only time that the whole key is known. */
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
      record(unit, "api_key.created", row, author);
      return { ...show(row), key: `svk_${ENVIRONMENT_IN_KEY[row.environment]}_${publicId}.${secret}` };
    },

    /** True when it was still in use; repeating changes nothing. */
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
      record(unit, "api_key.revoked", key, author);
      return { revoked: true, key };
    },
  };
}

function show(row: ApiKeyRow) {
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
