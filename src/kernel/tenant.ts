import type { Environment } from "../protocol/enums.ts";

/** Whose data: nothing of one project or environment is ever seen from another. */
export type Tenant = { projectId: string; environment: Environment };
