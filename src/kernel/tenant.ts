import type { Environment } from "../protocol/enums.ts";
import type { Bus } from "./bus.ts";
import type { Facts, JoinedFact } from "./facts.ts";

/** Whose data: nothing of one project or environment is ever seen from another. */
export type Tenant = { projectId: string; environment: Environment };

/** What a tenant is called in a map. */
export function tenantKey({ projectId, environment }: Tenant): string {
  return projectId + environment;
}

/**
 * The tenants that have any of something which few have, as `read` finds them. Asked for every message: those who have none
 * pay no more than this.
 */
export function tenantsWith(bus: Pick<Bus<Facts, JoinedFact>, "on">, read: () => Tenant[]) {
  let known: Set<string> | null = null;
  bus.on("changedElsewhere", () => {
    known = null;
  });
  return {
    has(tenant: Tenant): boolean {
      known ??= new Set(read().map(tenantKey));
      return known.has(tenantKey(tenant));
    },
    /** It has one now. One too many in here costs a look. */
    add: (tenant: Tenant): void => void known?.add(tenantKey(tenant)),
  };
}
