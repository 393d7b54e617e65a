import { randomBytes } from "node:crypto";
import { iso } from "../kernel/clock.ts";
import type { Unit } from "../kernel/db/writer.ts";
import { type Author, COMMAND_LINE } from "../kernel/facts.ts";
import { randomBase62 } from "../kernel/ids.ts";
import type { Environment } from "../protocol/enums.ts";
import { ApiError } from "../protocol/errors.ts";
import type { Runtime } from "../runtime.ts";
import { createApiKeyVerifier, ENVIRONMENT_IN_KEY } from "./api-key.verify.ts";
import { apiKeyStore } from "./store/api-key.store.ts";
import type { ApiKeyRow } from "./store/api-key.table.ts";

export type ApiKeyService = ReturnType<typeof apiKeyService>;

export function apiKeyService(runtime: Runtime) {
  const { db, bus, ids, keyring, now } = runtime;
  const store = apiKeyStore(db);

  const record = (
    unit: Unit,
    action: "api_key.created" | "api_key.revoked",
    { id, publicId, projectId, environment }: ApiKeyRow,
    author: Author,
  ) =>
    bus.announce(unit, "audit", {
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
      bus.announce(unit, "apiKeyRevoked", { publicId: key.publicId, projectId });
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
