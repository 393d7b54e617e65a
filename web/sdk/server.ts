/** `stoa/server`: a typed API client with idempotent retries, and webhook verification. For Node 20, Bun, Deno and edge runtimes. */
import { Api, type Project } from "./server/api.ts";
import { type Join, type JoinInput, mintJoin } from "./server/join.ts";

export type * from "./server/api.ts";
export type { Join, JoinInput } from "./server/join.ts";
export type { History, List } from "./server/pages.ts";
export { type CallOptions, StoaApiError, type StoaOptions } from "./server/request.ts";
export { verifyWebhook, type WebhookEvent, type WebhookEventOf, WebhookVerificationError } from "./server/webhook.ts";

/** The API client: `const stoa = new Stoa({ url, apiKey })`. Use it only on your backend; the key must never reach a browser. */
export class Stoa extends Api {
  /** The API key's project. */
  project(): Promise<Project> {
    return this.projects.current();
  }

  /**
   * Mints the tokens that a user needs for a room and its chat, and creates the room, its conversation and the membership
   * if they do not exist. Pass the result to the page unchanged.
   */
  mintJoin(input: JoinInput): Promise<Join> {
    return mintJoin(this, input);
  }
}
