import type { ApiKeyCaller, ChatTokenCaller } from "../kernel/http/callers.ts";
import type { Environment } from "../protocol/enums.ts";

/** Whose data: nothing of one project or environment is ever seen from another. */
export type Tenant = { projectId: string; environment: Environment };

/** A server with an API key, or one user with a chat token. */
export type ChatCaller = ApiKeyCaller | ChatTokenCaller;
