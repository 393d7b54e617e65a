import type { Environment } from "../protocol/enums.ts";
import type { Bus } from "./bus.ts";

/** Whose data: nothing of one project or environment is ever seen from another. */
export type Tenant = { projectId: string; environment: Environment };

/** What a tenant is called in a map. */
export function tenantKey({ projectId, environment }: Tenant): string {
  return projectId + environment;
}

export type Tenants = { has(tenant: Tenant): boolean; add(tenant: Tenant): void };

/** Tenants, as few or as many as were added. */
export function tenantSet(): Tenants {
  const keys = new Set<string>();
  return {
    has: (tenant) => keys.has(tenantKey(tenant)),
    add: (tenant) => void keys.add(tenantKey(tenant)),
  };
}

/**
 * The tenants that have any of something which few have, as `read` finds them. Asked for every message and
 * every join: those who have none pay no more than this.
 */
export function tenantsWith(bus: Pick<Bus, "on">, read: () => Tenant[]): Tenants {
  let known: Set<string> | null = null;
  bus.on("changedElsewhere", () => {
    known = null;
  });
  return {
    has(tenant) {
      known ??= new Set(read().map(tenantKey));
      return known.has(tenantKey(tenant));
    },
    /** It has one now. One too many in here costs a look. */
    add: (tenant) => void known?.add(tenantKey(tenant)),
  };
}
