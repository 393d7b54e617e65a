import type { Environment } from "../protocol/enums.ts";

/** The owner of data: no data of one project or environment is visible in another. */
export type Tenant = { projectId: string; environment: Environment };

export function sameTenant(one: Tenant, other: Tenant): boolean {
  return one.projectId === other.projectId && one.environment === other.environment;
}

/** The key of a tenant in a map. */
export function tenantKey({ projectId, environment }: Tenant): string {
  return projectId + environment;
}

/** The part of the bus that says when another process has written to the database. */
type ForeignChanges = { on(event: "changedElsewhere", listener: () => void): unknown };

type Tenants = { has(tenant: Tenant): boolean; add(tenant: Tenant): void };

export function tenantSet(): Tenants {
  const keys = new Set<string>();
  return {
    has: (tenant) => keys.has(tenantKey(tenant)),
    add: (tenant) => void keys.add(tenantKey(tenant)),
  };
}

/**
 * The tenants that use an optional feature, as `read` returns them. The set is checked for every message, so that tenants without
 * the feature cost no query.
 */
export function tenantsUsing(bus: ForeignChanges, read: () => Tenant[]): Tenants {
  let known: Set<string> | null = null;
  bus.on("changedElsewhere", () => {
    known = null;
  });
  return {
    has(tenant) {
      known ??= new Set(read().map(tenantKey));
      return known.has(tenantKey(tenant));
    },
    /** A tenant that no longer uses the feature may stay: it costs one query. */
    add: (tenant) => void known?.add(tenantKey(tenant)),
  };
}
