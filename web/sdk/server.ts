/** `stoa/server`: every route of the API typed, retries that never do a thing twice, webhooks. Node 20, Bun, Deno, edge. */
import { Api, type Project } from "./server/api.ts";
import { type Join, type JoinInput, mintJoin } from "./server/join.ts";

export type {
  Attachment,
  ChatToken,
  ClassifiedError,
  Connection,
  Conversation,
  ConversationMember,
  LiveStream,
  Message,
  MessagePage,
  Participant,
  Permissions,
  Project,
  ReadState,
  Room,
  RtcToken,
  StreamCredentials,
} from "./server/api.ts";
export type { Join, JoinInput } from "./server/join.ts";
export type { History, List } from "./server/pages.ts";
export { type CallOptions, StoaApiError, type StoaOptions } from "./server/request.ts";
export { verifyWebhook, type WebhookEvent, WebhookVerificationError } from "./server/webhook.ts";

/** `const stoa = new Stoa({ url, apiKey })`, on your backend: the key must never reach a browser. */
export class Stoa extends Api {
  /** The key's own project. */
  project(): Promise<Project> {
    return this.projects.current();
  }

  /**
   * Everything one user needs to be in a room, made where it is missing: the room and its conversation, membership, and
   * a token for each. Hand the answer to the page as it is.
   */
  mintJoin(input: JoinInput): Promise<Join> {
    return mintJoin(this, input);
  }
}
