import { iso } from "../../kernel/clock.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Attachment, Message, MessageType, Metadata } from "../../protocol/chat-records.ts";
import { ApiError, invalid } from "../../protocol/errors.ts";
import { type Access, type MessageAccess, requireActive, requireScope, requireUnmuted } from "./access.ts";
import type { EventLog } from "./event-log.ts";
import { fits, given, storedMetadata } from "./limits.ts";
import { mentionsIn } from "./messages/mentions.ts";
import type { Posting } from "./messages/posting.ts";
import type { BlockService } from "./moderation/block.service.ts";
import type { WordListService } from "./moderation/word-list.service.ts";
import { showMessage } from "./show.ts";
import type { ConversationStore } from "./store/conversation.store.ts";
import type { ConversationRow } from "./store/conversation.table.ts";
import type { MemberStore } from "./store/member.store.ts";
import type { MentionStore } from "./store/mention.store.ts";
import type { MessageStore } from "./store/message.store.ts";
import type { MessageRow } from "./store/message.table.ts";
import type { ReactionStore } from "./store/reaction.store.ts";

export type SendMessage = {
  text?: string;
  type?: string;
  replyTo?: string;
  clientMessageId?: string;
  attachmentId?: string;
  metadata?: Metadata;
  /** Honoured for servers only: a user always sends as themselves. */
  senderId?: string;
  /** By the client's clock; only measured, never shown. */
  clientSentAt?: number;
};

export type EditMessage = { text?: string; metadata?: Metadata | null };

/** Takes an uploaded attachment of this conversation for a message; throws when it is not there, or not ready. */
export type ClaimAttachment = (
  unit: Unit,
  conversation: ConversationRow,
  attachmentId: string,
  claim: { messageId: string; senderId: string | null },
) => Attachment;

type MessageDeps = {
  store: MessageStore;
  conversations: ConversationStore;
  members: MemberStore;
  reactions: ReactionStore;
  mentions: MentionStore;
  log: EventLog;
  posting: Posting;
  claimAttachment: ClaimAttachment;
  blocks: BlockService;
  wordLists: WordListService;
  /** Brings a message before the moderators. */
  flag: (unit: Unit, conversation: ConversationRow, message: Message) => void;
};

/** Stands in `deletedBy` of what went with its sender. */
const ERASURE = "erasure";
const USER_TYPES: readonly string[] = ["text", "attachment"];
const SERVER_TYPES: readonly string[] = [...USER_TYPES, "system", "event"];

export type MessageService = ReturnType<typeof messageService>;

/** `send` makes all its checks before its first change: it may stand in `checkThenWrite`. */
export function messageService({ bus, config, ids, metrics, now }: Runtime, deps: MessageDeps) {
  const { store, conversations, members, reactions, mentions, log, posting, claimAttachment, blocks, wordLists, flag } =
    deps;
  const { CHAT_MAX_TEXT_LENGTH, CHAT_MAX_METADATA_BYTES } = config;
  const arrival = metrics.histogram(
    "stoa_chat_arrival_seconds",
    "From the client's clock to the server's, where the client said when it sent",
    [0.01, 0.05, 0.1, 0.25, 1, 5],
  );
  const show = (conversation: ConversationRow, row: MessageRow): Message => showMessage(conversation, row, reactions);

  /** Half a surrogate pair cannot be stored as UTF-8; what is acknowledged is what will be read. */
  function checkedText(text: string | undefined): string | null {
    const checked = given(text)?.toWellFormed() ?? null;
    if (checked !== null && !fits(checked, CHAT_MAX_TEXT_LENGTH)) {
      throw invalid("text", `must have at most ${CHAT_MAX_TEXT_LENGTH} characters`);
    }
    return checked;
  }

  /** What the server says in its own name is the developer's. */
  function screenedText(conversation: ConversationRow, senderId: string | null, text: string | null) {
    if (senderId === null || !wordLists.isUsed(conversation)) return { text, isReported: false };
    return wordLists.screened(conversation, text);
  }

  function typeOf(access: Access, input: SendMessage, text: string | null): MessageType {
    const attached = given(input.attachmentId) !== null;
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

  /** The message replied to must stand in the same conversation; its thread is joined. */
  function threadOf(conversation: ConversationRow, replyTo: string | null): string | null {
    if (replyTo === null) return null;
    const parent = store.find(replyTo);
    if (parent?.conversationId !== conversation.id) throw new ApiError("SVC_MESSAGE_NOT_FOUND");
    if (parent.deletedAt !== null) throw new ApiError("SVC_MESSAGE_DELETED");
    return parent.threadRootId ?? parent.publicId;
  }

  /** Null, as most of the time: nothing is stored for it. Most texts have no `@`, and cost nothing. */
  function mentionsOf(conversation: ConversationRow, senderId: string | null, text: string | null): string | null {
    if (text === null || !text.includes("@")) return null;
    const { id } = conversation;
    const named = mentionsIn(text, (userId) => {
      if (userId === senderId || members.find(id, userId)?.status !== "ACTIVE") return false;
      return senderId === null || !blocks.hasBlocked(conversation, userId, senderId);
    });
    return named.length === 0 ? null : JSON.stringify(named);
  }

  function bury(unit: Unit, conversation: ConversationRow, message: MessageRow, deletedBy: string | null): void {
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
    const attachmentId = message.attachment === null ? null : (JSON.parse(message.attachment) as Attachment).id;
    bus.announce(unit, "messageDeleted", { messageId, conversationId, projectId, environment, attachmentId });
    const data = { ...deletion, conversationId, seq };
    bus.announce(unit, "webhook", { type: "message.deleted", projectId, environment, at, data });
  }

  return {
    store,
    show,

    /** Stores a message once per `clientMessageId`; a retry gives the original. */
    send(unit: Unit, access: Access, input: SendMessage): { message: Message; deduplicated: boolean } {
      const { conversation } = access;
      const at = now();
      const text = checkedText(input.text);
      const type = typeOf(access, input, text);
      const senderId = access.kind === "server" ? given(input.senderId) : access.userId;
      const clientMessageId = given(input.clientMessageId);
      const known = clientMessageId === null ? null : store.findByClientId(conversation.id, senderId, clientMessageId);
      if (known) return { message: show(conversation, known), deduplicated: true };

      requireActive(access);
      requireUnmuted(access, at);
      requireSlowModeKept(access, at);
      if (conversation.type === "DIRECT") blocks.requireWelcome(access);
      const screened = screenedText(conversation, senderId, text);
      const metadata = storedMetadata(input.metadata, CHAT_MAX_METADATA_BYTES);
      const replyTo = given(input.replyTo);
      const threadRootId = threadOf(conversation, replyTo);
      const publicId = ids.publicId("message");
      const attachmentId = given(input.attachmentId);
      // The last check. From here on things change, and nothing may be refused any more.
      const attachment =
        attachmentId === null
          ? null
          : claimAttachment(unit, conversation, attachmentId, { messageId: publicId, senderId });

      const message = posting.post(unit, conversation, at, {
        publicId,
        senderId,
        type,
        text: screened.text,
        replyTo,
        threadRootId,
        clientMessageId,
        attachment: attachment && JSON.stringify(attachment),
        metadata,
        mentions: mentionsOf(conversation, senderId, screened.text),
      });
      if (screened.isReported) flag(unit, conversation, message);
      // A clock that is wrong by more than a minute measures itself.
      const late = at - (input.clientSentAt ?? Number.NaN);
      if (Math.abs(late) < 60_000) arrival.observe(Math.max(0, late) / 1000);
      return { message, deduplicated: false };
    },

    /** Only the sender, or a server, rewrites a message; moderators delete. */
    edit(unit: Unit, { access, message }: MessageAccess, input: EditMessage): Message {
      if (access.kind === "user" && message.senderId !== access.userId) throw new ApiError("SVC_PERMISSION_DENIED");
      requireActive(access);
      if (message.deletedAt !== null) throw new ApiError("SVC_MESSAGE_DELETED");
      const at = now();
      requireUnmuted(access, at);
      if (input.text === "") throw invalid("text", "must not be empty");
      const said = checkedText(input.text);
      const { text, isReported } = screenedText(access.conversation, message.senderId, said);
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

    /** Leaves a tombstone: text, metadata, attachment and reactions are gone, everywhere. Again: the same answer. */
    delete(unit: Unit, { access, message }: MessageAccess): Message {
      if (access.kind === "user" && message.senderId !== access.userId) requireScope(access, "chat:moderate");
      const { conversation } = access;
      if (message.deletedAt !== null) return show(conversation, message);
      requireActive(access);
      bury(unit, conversation, message, access.userId);
      return show(conversation, store.find(message.publicId) ?? message);
    },

    /** Its sender is erased: a tombstone without a name. One that was deleted before loses its name, too. */
    erase(unit: Unit, conversation: ConversationRow, message: MessageRow): void {
      store.disown(unit, message.id);
      if (message.deletedAt === null) bury(unit, conversation, { ...message, senderId: null }, ERASURE);
    },

    /** Pinned messages stay findable; pinning is moderating. */
    pin(unit: Unit, { access, message }: MessageAccess, pinned: boolean): Message {
      requireScope(access, "chat:moderate");
      requireActive(access);
      if (message.deletedAt !== null) throw new ApiError("SVC_MESSAGE_DELETED");
      const { conversation } = access;
      if ((message.pinnedAt !== null) === pinned) return show(conversation, message);
      const at = now();
      const row: MessageRow = { ...message, pinnedAt: pinned ? at : null, updatedAt: at };
      store.pin(unit, row.id, row.pinnedAt, at);
      const shown = show(conversation, row);
      log.record(unit, conversation, "message.updated", at, row.publicId, { message: shown });
      return shown;
    },

    /** The root, even if deleted, then its replies, oldest first; after `afterSeq` only the rest of them. */
    thread({ message }: MessageAccess, afterSeq: number, includeDeleted: boolean, limit: number): MessageRow[] {
      const rootId = message.threadRootId ?? message.publicId;
      const root = afterSeq === 0 ? store.find(rootId) : null;
      const replies = store.replies(rootId, afterSeq, includeDeleted, limit);
      return root ? [root, ...replies].slice(0, limit) : replies;
    },
  };
}
