import type { ProjectRole } from "./enums.ts";

const READ = [
  "project:read",
  "members:read",
  "api-keys:read",
  "rooms:read",
  "streams:read",
  "chat:read",
  "webhooks:read",
  "observability:read",
  "usage:read",
  "recordings:read",
] as const;
const MANAGE = [
  "rooms:manage",
  "streams:manage",
  "api-keys:manage",
  "webhooks:manage",
  "recordings:manage",
  "chat:moderate",
] as const;
const ADMINISTER = ["project:update", "members:manage", "audit:read", "people:read", "people:manage"] as const;
const OWN = ["project:archive", "owners:manage"] as const;

export type Permission = (typeof READ | typeof MANAGE | typeof ADMINISTER | typeof OWN)[number];

/** The permissions of each project role; the dashboard uses the same table. */
export const PERMISSIONS: Record<ProjectRole, readonly Permission[]> = {
  VIEWER: READ,
  DEVELOPER: [...READ, ...MANAGE],
  ADMIN: [...READ, ...MANAGE, ...ADMINISTER],
  OWNER: [...READ, ...MANAGE, ...ADMINISTER, ...OWN],
};
