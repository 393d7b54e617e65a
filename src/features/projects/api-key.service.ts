import { randomBytes } from "node:crypto";
import { type Author, COMMAND_LINE } from "../../kernel/author.ts";
import { randomBase62 } from "../../kernel/crypto/ids.ts";
import { openText, sameSecret, sealText } from "../../kernel/crypto/secrets.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { ApiKeyCaller } from "../../kernel/http/callers.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { iso } from "../../kernel/time/clock.ts";
import type { Environment } from "../../protocol/enums.ts";
import { ApiError, invalid } from "../../protocol/errors.ts";
import { type ApiKeyRow, apiKeyStore } from "./api-key.store.ts";
import { createApiKeyVerifier, ENVIRONMENT_IN_KEY } from "./api-key.verify.ts";

const IMPORTED_ID = /^[\x21-\x7e]{1,128}$/;
const MIN_IMPORTED_SECRET = 16;
const MAX_IMPORTED_SECRET = 512;

export type ApiKeyService = ReturnType<typeof apiKeyService>;

export function apiKeyService(runtime: Runtime) {
  const { db, bus, ids, keyring, now } = runtime;
  const store = apiKeyStore(db);

  /**
   * The secret for signing LiveKit tokens. It is derived from the key's id, so every key has one and none is stored,
   * except for keys that were imported with theirs.
   */
  function signingSecretOf({
    publicId,
    createdAt,
    sealedLivekitSecret,
  }: Pick<ApiKeyRow, "publicId" | "createdAt" | "sealedLivekitSecret">): string {
    const key = keyring.keyAt("livekit-secret", createdAt);
    if (sealedLivekitSecret === null) return new Bun.CryptoHasher("sha256", key).update(publicId).digest("hex");
    const secret = openText([key], sealedLivekitSecret);
    if (secret === null) throw new Error("the imported secret of an API key cannot be decrypted");
    return secret;
  }

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
      signingSecretOf(store.findUsable(publicId) ?? { publicId, createdAt: now(), sealedLivekitSecret: null }),

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
        sealedLivekitSecret: null,
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

    /**
     * Takes over a key and its secret from a LiveKit server, for LiveKit's tokens and server API; requests to our own API
     * need another key. Importing a key again has no effect; `imported` is then false.
     */
    importLivekit(
      unit: Unit,
      projectId: string,
      { apiKey: publicId, apiSecret, environment }: { apiKey: string; apiSecret: string; environment: Environment },
    ): { key: ApiKeyRow; imported: boolean } {
      if (!IMPORTED_ID.test(publicId)) throw invalid("the id of a key", "must have 1 to 128 visible ASCII characters");
      if (apiSecret.length < MIN_IMPORTED_SECRET || apiSecret.length > MAX_IMPORTED_SECRET) {
        const range = `${MIN_IMPORTED_SECRET} to ${MAX_IMPORTED_SECRET}`;
        throw invalid(
          `the secret of the key ${publicId}`,
          `must have ${range} characters, because a shorter one can be guessed from a token`,
        );
      }
      const known = store.findByPublicId(publicId);
      if (known) {
        const isSame = known.projectId === projectId && known.environment === environment && known.revokedAt === null;
        if (isSame && sameSecret(signingSecretOf(known), apiSecret)) return { key: known, imported: false };
        throw new ApiError("SVC_CONFLICT", `The API key ${publicId} exists already, with another secret or project.`);
      }
      const createdAt = now();
      const key: ApiKeyRow = {
        id: ids.uuid(),
        projectId,
        publicId,
        environment,
        createdAt,
        // No key text has this digest, so the key is refused by our own API.
        secretDigest: keyring.digest("api-key", randomBytes(32).toString("base64url")),
        sealedLivekitSecret: sealText(keyring.keyAt("livekit-secret", createdAt), apiSecret),
        name: "imported from LiveKit",
        lastUsedAt: null,
        revokedAt: null,
      };
      store.insert(unit, key);
      audit(unit, "api_key.created", key, COMMAND_LINE);
      return { key, imported: true };
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
