import type { ApiKeyCaller, ChatTokenCaller } from "../../kernel/http/callers.ts";

/** A server with an API key, or one user with a chat token. */
export type ChatCaller = ApiKeyCaller | ChatTokenCaller;
