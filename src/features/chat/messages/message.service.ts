import type { Unit } from "../../../kernel/db/writer.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { iso } from "../../../kernel/time/clock.ts";
import type { Attachment, Message, MessageType } from "../../../protocol/chat-records.ts";
import { ApiError, invalid } from "../../../protocol/errors.ts";
import { type Access, type MessageAccess, requireActive, requireScope, requireUnmuted } from "../access.ts";
import type { EditMessage, SendMessage } from "../chat.schema.ts";
import type { ConversationRow } from "../conversations/conversation.table.ts";
import type { EventLog } from "../event-log.ts";
import { emptyAsNull, fits, storedMetadata } from "../input.ts";
import type { BlockService } from "../moderation/block.service.ts";
import type { WordListService } from "../moderation/word-list.service.ts";
import { attachmentIdOf, presentMessage } from "../present.ts";
import type { ChatStores } from "../stores.ts";
import { mentionsIn } from "./mentions.ts";
import type { MessageRow } from "./message.table.ts";
import type { Posting } from "./posting.ts";

/** Uses an uploaded attachment of this conversation in a message; throws when it does not exist or is not ready. */
export type ClaimAttachment = (
  unit: Unit,
  conversation: ConversationRow,
  attachmentId: string,
  senderId: string | null,
) => Attachment;

type MessageDeps = {
  stores: ChatStores;
  log: EventLog;
  posting: Posting;
  claimAttachment: ClaimAttachment;
  blocks: BlockService;
  wordLists: WordListService;
  /** Puts a message into the moderation queue. */
  flag: (unit: Unit, conversation: ConversationRow, message: Message) => void;
};

/** The `deletedBy` of messages that were deleted because their sender was erased. */
const ERASURE = "erasure";
const USER_TYPES: readonly string[] = ["text", "attachment"];
const SERVER_TYPES: readonly string[] = [...USER_TYPES, "system", "event"];

export type MessageService = ReturnType<typeof messageService>;

/** `send` makes all its checks before its first change, as `checkThenWrite` requires. */
export function messageService({ bus, config, ids, metrics, now }: Runtime, deps: MessageDeps) {
  const { log, posting, claimAttachment, blocks, wordLists, flag } = deps;
  const { conversations, members, messages: store, reactions, mentions } = deps.stores;
  const { CHAT_MAX_TEXT_LENGTH, CHAT_MAX_METADATA_BYTES } = config;
  const arrival = metrics.histogram(
    "stoa_chat_arrival_seconds",
    "From the client's clock to the server's, for messages with clientSentAt",
    [0.01, 0.05, 0.1, 0.25, 1, 5],
  );
  const present = (conversation: ConversationRow, row: MessageRow): Message =>
    presentMessage(conversation, row, deps.stores);

  /** Half a surrogate pair cannot be stored as UTF-8, and the acknowledged text must be the stored one. */
  function checkedText(text: string | undefined): string | null {
    const checked = emptyAsNull(text)?.toWellFormed() ?? null;
    if (checked !== null && !fits(checked, CHAT_MAX_TEXT_LENGTH)) {
      throw invalid("text", `must have at most ${CHAT_MAX_TEXT_LENGTH} characters`);
    }
    return checked;
  }

  /** Messages of backends are not screened. */
  function screenedText(conversation: ConversationRow, senderId: string | null, text: string | null) {
    if (senderId === null || !wordLists.isUsed(conversation)) return { text, isReported: false };
    return wordLists.screened(conversation, text);
  }

  function typeOf(access: Access, input: SendMessage, text: string | null): MessageType {
    const attached = emptyAsNull(input.attachmentId) !== null;
    const type = input.type ?? (attached ? "attachment" : "text");
    if (!SERVER_TYPES.includes(type)) throw invalid("type", `must be one of ${SERVER_TYPES.join(", ")}`);
    if (access.kind === "user" && !USER_TYPES.includes(type)) {
      throw new ApiError("SVC_PERMISSION_DENIED", `Only a server sends messages of type ${type}.`);
    }
    if (type === "attachment" && !attached) throw invalid("attachmentId", "is required for an attachment");
    if (type === "text" && text === null) throw invalid("text", "is required");
    return type as MessageType;
  }

  function requireSlowModeKept(access: Access, at: number): void {
    const { slowModeSeconds, id } = access.conversation;
    if (slowModeSeconds === 0 || access.kind === "server" || access.member.role !== "MEMBER") return;
    const last = store.lastSentAt(id, access.userId);
    const waitMs = last === null ? 0 : last + slowModeSeconds * 1000 - at;
    if (waitMs > 0) throw new ApiError("SVC_SLOW_MODE", undefined, { retryAfterSeconds: Math.ceil(waitMs / 1000) });
  }

  /** The parent must belong to the same conversation; the reply joins its thread. */
  function threadOf(conversation: ConversationRow, replyTo: string | null): string | null {
    if (replyTo === null) return null;
    const parent = store.find(replyTo);
    if (parent?.conversationId !== conversation.id) throw new ApiError("SVC_MESSAGE_NOT_FOUND");
    if (parent.deletedAt !== null) throw new ApiError("SVC_MESSAGE_DELETED");
    return parent.threadRootId ?? parent.publicId;
  }

  /** JSON for the message row, or null without mentions. */
  function mentionsOf(conversation: ConversationRow, senderId: string | null, text: string | null): string | null {
    if (text === null || !text.includes("@")) return null;
    const { id } = conversation;
    const named = mentionsIn(text, (userId) => {
      if (userId === senderId || members.find(id, userId)?.status !== "ACTIVE") return false;
      return senderId === null || !blocks.hasBlocked(conversation, userId, senderId);
    });
    return named.length === 0 ? null : JSON.stringify(named);
  }

  function leaveTombstone(
    unit: Unit,
    conversation: ConversationRow,
    message: MessageRow,
    deletedBy: string | null,
  ): void {
    const at = now();
    store.tombstone(unit, message.id, at, deletedBy);
    reactions.clear(unit, message.id);
    conversations.uncountMessage(unit, conversation.id, message.reactionCount);
    const { publicId: messageId, senderId } = message;
    const deletion = { messageId, senderId, deletedAt: iso(at), deletedBy };
    if (message.mentions !== null) mentions.remove(unit, conversation.id, message.ordinal);
    const thread = posting.countReply(unit, message.threadRootId, -1);
    const { seq } = log.record(unit, conversation, "message.deleted", at, messageId, { ...deletion, ...thread });
    const { projectId, environment, publicId: conversationId } = conversation;
    bus.publish(unit, "messageDeleted", {
      messageId,
      conversationId,
      projectId,
      environment,
      attachmentId: attachmentIdOf(message),
    });
    const data = { ...deletion, conversationId, seq };
    bus.publish(unit, "webhook", { type: "message.deleted", projectId, environment, at, data });
  }

  return {
    store,
    present,

    /** Stores a message once per `clientMessageId`; a retry returns the original message. */
    send(unit: Unit, access: Access, input: SendMessage): { message: Message; deduplicated: boolean } {
      const { conversation } = access;
      const at = now();
      const text = checkedText(input.text);
      const type = typeOf(access, input, text);
      const senderId = access.kind === "server" ? emptyAsNull(input.senderId) : access.userId;
      const clientMessageId = emptyAsNull(input.clientMessageId);
      const known = clientMessageId === null ? null : store.findByClientId(conversation.id, senderId, clientMessageId);
      if (known) return { message: present(conversation, known), deduplicated: true };

      requireActive(access);
      requireUnmuted(access, at);
      requireSlowModeKept(access, at);
      if (conversation.type === "DIRECT") blocks.requireNotBlocked(access);
      const screened = screenedText(conversation, senderId, text);
      const metadata = storedMetadata(input.metadata, CHAT_MAX_METADATA_BYTES);
      const replyTo = emptyAsNull(input.replyTo);
      const threadRootId = threadOf(conversation, replyTo);
      const attachmentId = emptyAsNull(input.attachmentId);
      // This is the last check: after the first change, the request must not be rejected.
      const attachment = attachmentId === null ? null : claimAttachment(unit, conversation, attachmentId, senderId);

      const senderName = access.kind === "user" ? (access.member.name ?? access.userId) : undefined;
      const stored = {
        publicId: ids.publicId("message"),
        senderId,
        type,
        text: screened.text,
        replyTo,
        threadRootId,
        clientMessageId,
        attachment: attachment && JSON.stringify(attachment),
        metadata,
        mentions: mentionsOf(conversation, senderId, screened.text),
      };
      const message = posting.post(unit, conversation, at, stored, senderName);
      if (screened.isReported) flag(unit, conversation, message);
      // A difference of more than a minute comes from a wrong clock.
      const latencyMs = at - (input.clientSentAt ?? Number.NaN);
      if (Math.abs(latencyMs) < 60_000) arrival.observe(Math.max(0, latencyMs) / 1000);
      return { message, deduplicated: false };
    },

    /** Only the sender or a server may edit a message; moderators may only delete it. */
    edit(unit: Unit, { access, message }: MessageAccess, input: EditMessage): Message {
      if (access.kind === "user" && message.senderId !== access.userId) throw new ApiError("SVC_PERMISSION_DENIED");
      requireActive(access);
      if (message.deletedAt !== null) throw new ApiError("SVC_MESSAGE_DELETED");
      const at = now();
      requireUnmuted(access, at);
      // An edited message reaches the other member like a new one.
      if (access.conversation.type === "DIRECT") blocks.requireNotBlocked(access);
      if (input.text === "") throw invalid("text", "must not be empty");
      const { text, isReported } = screenedText(access.conversation, message.senderId, checkedText(input.text));
      if (text === null && input.metadata === undefined) throw invalid("text", "or metadata is required");
      const { conversation } = access;
      const row: MessageRow = {
        ...message,
        text: text ?? message.text,
        mentions: text === null ? message.mentions : mentionsOf(conversation, message.senderId, text),
        metadata:
          input.metadata === undefined ? message.metadata : storedMetadata(input.metadata, CHAT_MAX_METADATA_BYTES),
        editedAt: at,
        updatedAt: at,
      };
      const changed = posting.change(unit, conversation, row, at);
      if (isReported) flag(unit, conversation, changed);
      return changed;
    },

    /** Leaves a tombstone without text, metadata, attachment and reactions. A repeated deletion changes nothing. */
    delete(unit: Unit, { access, message }: MessageAccess): Message {
      if (access.kind === "user" && message.senderId !== access.userId) requireScope(access, "chat:moderate");
      const { conversation } = access;
      if (message.deletedAt !== null) return present(conversation, message);
      requireActive(access);
      leaveTombstone(unit, conversation, message, access.userId);
      return present(conversation, store.find(message.publicId) ?? message);
    },

    /** Removes the sender's name, and leaves a tombstone unless the message is already deleted. */
    erase(unit: Unit, conversation: ConversationRow, message: MessageRow): void {
      store.removeSender(unit, message.id);
      if (message.deletedAt === null) leaveTombstone(unit, conversation, { ...message, senderId: null }, ERASURE);
    },

    pin(unit: Unit, { access, message }: MessageAccess, pinned: boolean): Message {
      requireScope(access, "chat:moderate");
      requireActive(access);
      if (message.deletedAt !== null) throw new ApiError("SVC_MESSAGE_DELETED");
      const { conversation } = access;
      if ((message.pinnedAt !== null) === pinned) return present(conversation, message);
      const at = now();
      const row: MessageRow = { ...message, pinnedAt: pinned ? at : null, updatedAt: at };
      store.pin(unit, row.id, row.pinnedAt, at);
      const pinnedMessage = present(conversation, row);
      log.record(unit, conversation, "message.updated", at, row.publicId, { message: pinnedMessage });
      return pinnedMessage;
    },

    /** The root, even if deleted, then its replies after `afterSeq`, oldest first. */
    thread({ message }: MessageAccess, afterSeq: number, includeDeleted: boolean, limit: number): MessageRow[] {
      const rootId = message.threadRootId ?? message.publicId;
      const root = afterSeq === 0 ? store.find(rootId) : null;
      const replies = store.replies(rootId, afterSeq, includeDeleted, limit);
      return root ? [root, ...replies].slice(0, limit) : replies;
    },
  };
}
