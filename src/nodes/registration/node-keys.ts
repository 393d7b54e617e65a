/**
 * A secret for one media node, in addition to the secret that all nodes may share. It allows registration under one name only, and
 * it is what the server presents when it calls that node, so a compromised node learns nothing with which it could impersonate
 * others.
 */

import { COMMAND_LINE } from "../../kernel/author.ts";
import { randomBase62 } from "../../kernel/crypto/ids.ts";
import { sameSecret } from "../../kernel/crypto/secrets.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { NodeKey } from "../../kernel/http/callers.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { iso } from "../../kernel/time/clock.ts";
import { ApiError, invalid } from "../../protocol/errors.ts";
import { SERVER_NAME_PATTERN } from "../../protocol/ids.ts";
import { nodeKeyStore } from "./node-key.store.ts";
import type { NodeKeyRow } from "./node-key.table.ts";

export type NodeKeys = ReturnType<typeof createNodeKeys>;

const SECRET = /^svn_([A-Za-z0-9]{16})\.[A-Za-z0-9_-]{43}$/;
const TOUCH_EVERY_MS = 10_000;

export function createNodeKeys({ bus, db, keyring, now }: Pick<Runtime, "bus" | "db" | "keyring" | "now">) {
  const store = nodeKeyStore(db);

  /** Secrets of nodes are created and revoked on the command line only. */
  function audit(unit: Unit, action: "node_key.created" | "node_key.revoked", publicId: string, name: string): void {
    const entry = { action, projectId: null, resourceId: publicId, metadata: { name }, at: now() };
    bus.publish(unit, "audit", { ...COMMAND_LINE, ...entry });
  }

  /** Derived when needed, so that the database holds no secret. */
  function secretOf({ publicId, name, createdAt }: NodeKeyRow): string {
    const hash = new Bun.CryptoHasher("sha256", keyring.keyAt("node-key", createdAt)).update(`${publicId} ${name}`);
    return `svn_${publicId}.${hash.digest("base64url")}`;
  }

  return {
    /** Returns the secret, which is shown only once. */
    create(unit: Unit, name: string) {
      if (!new RegExp(SERVER_NAME_PATTERN).test(name)) throw invalid("name", "is not a valid media node name");
      const row = { publicId: randomBase62(16), name, createdAt: now(), lastUsedAt: null, revokedAt: null };
      store.insert(unit, row);
      audit(unit, "node_key.created", row.publicId, name);
      return { ...present(row), secret: secretOf(row) };
    },

    list: () => store.all().map(present),

    /** Returns true when the key was active; the server then disconnects the node within seconds. */
    revoke(unit: Unit, publicId: string): boolean {
      const row = store.find(publicId);
      if (!row) throw new ApiError("SVC_API_KEY_NOT_FOUND", "There is no such media node secret.");
      if (row.revokedAt !== null) return false;
      store.revoke(unit, publicId, now());
      audit(unit, "node_key.revoked", publicId, row.name);
      return true;
    },

    verify(secret: string): NodeKey {
      const [, publicId = ""] = SECRET.exec(secret) ?? [];
      const row = store.find(publicId);
      if (!row || row.revokedAt !== null || !sameSecret(secret, secretOf(row))) throw new ApiError("SVC_AUTH_ERROR");
      return { publicId, name: row.name };
    },

    /** Checks that a node presented the right secret: its own, or the shared one if it has none. */
    admit(unit: Unit, name: string, key: NodeKey | null): void {
      if (key === null) {
        if (store.usedBy(name).length === 0) return;
        throw new ApiError("SVC_PERMISSION_DENIED", `The media node ${name} has its own secret and accepts no other.`);
      }
      if (key.name !== name) {
        throw new ApiError("SVC_PERMISSION_DENIED", `This secret is only for the media node ${key.name}.`);
      }
      const { lastUsedAt = null } = store.find(key.publicId) ?? {};
      if (lastUsedAt === null || now() - lastUsedAt >= TOUCH_EVERY_MS) store.touch(unit, key.publicId, now());
    },

    /** The secret for calls to the node with this name; null if its own secret was revoked, so that it must not be called. */
    secretFor(name: string, shared: string): string | null {
      const used = store.usedBy(name);
      if (used.length === 0) return shared;
      const [current] = used.filter(({ revokedAt }) => revokedAt === null);
      return current ? secretOf(current) : null;
    },
  };
}

function present({ publicId, name, createdAt, lastUsedAt, revokedAt }: NodeKeyRow) {
  return {
    publicId,
    name,
    status: revokedAt === null ? ("ACTIVE" as const) : ("REVOKED" as const),
    createdAt: iso(createdAt),
    lastUsedAt: iso(lastUsedAt),
    revokedAt: iso(revokedAt),
  };
}
