import type { ChatPersonal, ChatSignal } from "../../protocol/chat.ts";
import type { ChatEvent } from "../../protocol/chat-events.ts";
import type { Environment } from "../../protocol/enums.ts";

declare module "../../kernel/bus.ts" {
  interface TransactionalEvents {
    /** A durable event of a conversation, to be indexed in the transaction and fanned out after the commit. */
    chatEvent: {
      conversation: { id: string; publicId: string; projectId: string; environment: Environment };
      event: ChatEvent;
      /** The row of a message that was just stored. */
      rowId: number | null;
    };
    /** A message's text, metadata and attachment must be removed everywhere, also from queues. Ids are public ones. */
    messageDeleted: {
      messageId: string;
      conversationId: string;
      projectId: string;
      environment: Environment;
      attachmentId: string | null;
    };
    chatTokenRevoked: { tokenId: string };
  }
  interface BusEvents {
    /** A signal for clients that have the conversation (its uuid) open; it is never replayed. */
    chatSignal: { conversationId: string; signal: ChatSignal };
    /** The project's list of blocked words changed. */
    wordListChanged: { projectId: string; environment: Environment };
    /** A frame about a conversation (its uuid) for these users, on every socket whose token may read it. */
    chatPersonal: {
      projectId: string;
      environment: Environment;
      conversationId: string;
      userIds: readonly string[];
      frame: ChatPersonal;
    };
  }
}
