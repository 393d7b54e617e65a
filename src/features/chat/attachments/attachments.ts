import { type OriginPolicy, originAllowed, originRefused } from "../../../kernel/http/origins.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { storageQuota } from "../../storage/quota.ts";
import { createStorages } from "../../storage/storages.ts";
import { attachmentRemovals } from "./attachment.removals.ts";
import { attachmentService } from "./attachment.service.ts";
import { attachmentStore } from "./attachment.store.ts";
import { attachmentTransfers } from "./attachment.transfers.ts";

export type Attachments = ReturnType<typeof createAttachments>;

/** The parts of attachments, wired together: the records, the bytes on their way, and how they go. */
export function createAttachments(runtime: Runtime, originPolicy: (projectId: string) => OriginPolicy) {
  const store = attachmentStore(runtime.db);
  const storages = createStorages(runtime);
  const quota = storageQuota(runtime);
  const removals = attachmentRemovals(runtime, { store, storages });
  const judgeOrigin = (projectId: string, origin: string | null) => {
    if (!originAllowed(origin, originPolicy(projectId))) throw originRefused(origin);
  };
  return {
    ...attachmentService(runtime, { store, storages, removals, quota }),
    transfers: attachmentTransfers(runtime, { store, storages, removals, quota, judgeOrigin }),
    removals,
    /** For whatever else is stored beside attachments. */
    quota,
    storages,
  };
}
