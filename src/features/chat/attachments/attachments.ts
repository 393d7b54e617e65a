import { type OriginPolicy, originAllowed, originRefused } from "../../../kernel/http/origins.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { storageQuota } from "../../storage/quota.ts";
import { createStorages } from "../../storage/storages.ts";
import { attachmentRemovals } from "./attachment.removals.ts";
import { attachmentService } from "./attachment.service.ts";
import { attachmentStore } from "./attachment.store.ts";
import { attachmentTransfers } from "./attachment.transfers.ts";

export type Attachments = ReturnType<typeof createAttachments>;

export function createAttachments(runtime: Runtime, originPolicy: (projectId: string) => OriginPolicy) {
  const store = attachmentStore(runtime.db);
  const storages = createStorages(runtime);
  const quota = storageQuota(runtime);
  const removals = attachmentRemovals(runtime, { store, storages });
  const requireAllowedOrigin = (projectId: string, origin: string | null) => {
    if (!originAllowed(origin, originPolicy(projectId))) throw originRefused(origin);
  };
  return {
    ...attachmentService(runtime, { store, storages, removals, quota }),
    transfers: attachmentTransfers(runtime, { store, storages, removals, quota, requireAllowedOrigin }),
    removals,
    /** Recordings share the quota and the storages. */
    quota,
    storages,
  };
}
