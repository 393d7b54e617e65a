import type { ChatPersonal, ChatSignal } from "../../protocol/chat.ts";
import type { ChatEvent } from "../../protocol/chat-events.ts";
import type { Environment } from "../../protocol/enums.ts";

declare module "../../kernel/bus.ts" {
  interface TransactionalEvents {
    /** A durable event of a conversation, which is indexed in the transaction and sent to sockets after the commit. */
    chatEvent: {
      conversation: { id: string; publicId: string; projectId: string; environment: Environment };
      event: ChatEvent;
      /** The row of a message that was just stored. */
      rowId: number | null;
    };
    /**
     * A message's text, metadata and attachment must be removed everywhere, including queues. All ids are public ids.
     */
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
    /** A signal to clients that have joined the conversation (its uuid); signals are never replayed. */
    chatSignal: { conversationId: string; signal: ChatSignal };
    /** The project's list of blocked words changed. */
    wordListChanged: { projectId: string; environment: Environment };
    /** A frame about a conversation (its uuid) to these users, on every socket whose token may read it. */
    chatPersonal: {
      projectId: string;
      environment: Environment;
      conversationId: string;
      userIds: readonly string[];
      frame: ChatPersonal;
    };
  }
}
