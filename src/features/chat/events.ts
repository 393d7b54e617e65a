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
  }
  interface BusEvents {
    chatTokenRevoked: { tokenId: string };
    /** A signal for clients that have the conversation (its uuid) open; it is never replayed. */
    chatSignal: { conversationId: string; signal: ChatSignal };
    /** The project's list of blocked words changed. */
    wordListChanged: { projectId: string; environment: Environment };
    /** A frame for all sockets of these users, regardless of the conversations that they have joined. */
    chatPersonal: { projectId: string; environment: Environment; userIds: readonly string[]; frame: ChatPersonal };
  }
}
