import { CHANGES_PER_UNIT, changeEach, pages, untilNoneLeft } from "../../kernel/db/pages.ts";
import { removeStoredResponses } from "../../kernel/http/idempotency.ts";
import { ERASED, type PersonalData, type PersonalFile, presentRow, type User } from "../../kernel/personal-data.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { sameTenant } from "../../kernel/tenant.ts";
import { iso } from "../../kernel/time/clock.ts";
import type { AttachmentRow } from "./attachments/attachment.table.ts";
import type { Attachments } from "./attachments/attachments.ts";
import { callNoteMetadata, callText, parseCallNote } from "./calls/call-note.ts";
import type { ChatService } from "./chat.ts";
import type { ConversationRow } from "./conversations/conversation.table.ts";
import { withoutMention } from "./messages/mentions.ts";
import type { MessageRow } from "./messages/message.table.ts";
import { chatPersonalDataStore, mentionsOf } from "./personal-data.store.ts";
import { callNoteWithoutUser, namesUser, withoutUser } from "./redaction.ts";

export { chatPersonalColumns } from "./personal-data.store.ts";

const MESSAGES_PER_PAGE = 100;

/** All personal data in chat: the user's messages, and what others wrote, did and recorded about the user. */
export function chatPersonalData(runtime: Runtime, chat: ChatService, attachments: Attachments): PersonalData {
  const { db, now, write } = runtime;
  const store = chatPersonalDataStore(db);

  async function* mapped<Row>(rowsOf: AsyncIterable<Row[]>, present: (row: Row) => object): AsyncGenerator<object[]> {
    for await (const rows of rowsOf) yield rows.map(present);
  }

  async function* messagesOf(user: User): AsyncGenerator<object[]> {
    for await (const conversation of store.conversations(user)) {
      const sent = pages(0, (after) => {
        const rows = store.sent(conversation.id, user.userId, after, MESSAGES_PER_PAGE);
        const last = rows.at(-1);
        return last ? { until: last.seq, rows } : null;
      });
      yield* mapped(sent, (row) => chat.messages.present(conversation, row));
    }
  }

  async function* mentionsOfUser(user: User): AsyncGenerator<object[]> {
    for await (const { id, publicId: conversationId } of store.conversations(user)) {
      yield* mapped(store.mentioning(id, user.userId), ({ publicId, createdAt }) => ({
        conversationId,
        messageId: publicId,
        at: iso(createdAt),
      }));
    }
  }

  async function* filesOf(user: User): AsyncGenerator<PersonalFile> {
    for await (const rows of store.uploaded(user)) {
      for (const { publicId, objectKey, location, status, size } of rows) {
        const storage = attachments.storages.at(location);
        if (objectKey === null || status !== "UPLOADED" || storage === null) continue;
        const open = (path: string) => storage.onThisMachine(objectKey, path);
        yield { name: `attachments/${publicId}`, bytes: size, open };
      }
    }
  }

  const conversationOf = ({ conversationId }: { conversationId: string }): ConversationRow => {
    const conversation = chat.conversations.find(conversationId);
    if (!conversation) throw new Error("a row belongs to a conversation that does not exist");
    return conversation;
  };

  async function eraseReactions(user: User): Promise<void> {
    await changeEach(write, store.reactions(user), (unit, { conversationId, messageId, emoji }) => {
      const message = chat.messages.store.find(messageId);
      if (message) chat.reactions.erase(unit, conversationOf({ conversationId }), message, user.userId, emoji);
    });
  }

  async function eraseMessages(conversation: ConversationRow, userId: string): Promise<void> {
    // An erased message has no sender any more, so the query always reads the first page.
    const sent = untilNoneLeft(() => store.sent(conversation.id, userId, 0, CHANGES_PER_UNIT));
    await changeEach(write, sent, (unit, message) => chat.messages.erase(unit, conversation, message));
    if (!store.hasDeleted(conversation.id, userId)) return;
    await write((unit) => store.anonymizeDeleter(unit, conversation.id, userId));
  }

  /** Removes the user's files, and takes them out of messages that others sent. */
  async function eraseAttachments(user: User): Promise<void> {
    for await (const rows of store.uploaded(user)) {
      const shownIn = new Set(rows.filter(({ messageCount }) => messageCount > 0).map((row) => row.conversationId));
      for (const conversationId of shownIn) {
        const conversation = conversationOf({ conversationId });
        const showing = untilNoneLeft(() => store.showing(conversationId, user.userId, CHANGES_PER_UNIT));
        await changeEach(write, showing, (unit, row) => {
          const at = now();
          store.removeAttachment(unit, row.id, at);
          const message = chat.messages.present(conversation, { ...row, attachment: null, updatedAt: at });
          chat.log.record(unit, conversation, "message.updated", at, row.publicId, { message });
        });
      }
      await changeEach(write, [rows], (unit, attachment) => attachments.erase(unit, attachment));
    }
  }

  async function eraseMentions(conversation: ConversationRow, userId: string): Promise<void> {
    if (!store.isMentioned(conversation.id, userId)) return;
    await changeEach(write, store.mentioning(conversation.id, userId), (unit, row) => {
      const others = mentionsOf(row).filter((one) => one !== userId);
      const text = row.text === null ? null : withoutMention(row.text, userId, ERASED);
      const mentions = others.length === 0 ? null : JSON.stringify(others);
      chat.posting.change(unit, conversation, { ...row, text, mentions, updatedAt: now() }, now());
    });
    await write((unit) => store.removeMentions(unit, conversation.id, userId));
  }

  async function eraseCallNotes(conversation: ConversationRow, userId: string): Promise<void> {
    const naming = untilNoneLeft(() =>
      store.callNotes(conversation.id, userId).flatMap((row) => {
        const note = parseCallNote(row.metadata);
        const redacted = note && callNoteWithoutUser(note, userId);
        return redacted && JSON.stringify(redacted) !== JSON.stringify(note) ? [{ row, note: redacted }] : [];
      }),
    );
    const nameOf = (participant: string) => chat.members.nameOf(conversation.id, participant);
    await changeEach(write, naming, (unit, { row, note }) => {
      const changed: MessageRow = {
        ...row,
        text: callText(note, nameOf),
        metadata: callNoteMetadata(note),
        updatedAt: now(),
      };
      chat.posting.change(unit, conversation, changed, now());
    });
  }

  /** The event log keeps every `seq`; only the user is removed from its events. */
  async function eraseFromEvents({ id }: ConversationRow, userId: string): Promise<void> {
    await changeEach(write, store.events(id, userId), (unit, { seq, detail }) =>
      store.rewriteEvent(unit, id, seq, JSON.stringify(withoutUser(JSON.parse(detail), userId))),
    );
  }

  return {
    kinds: {
      messages: messagesOf,
      memberships: (user) =>
        mapped(store.members(user), (row) => ({
          conversationId: row.conversationPublicId,
          ...chat.members.present(row),
        })),
      reactions: (user) =>
        mapped(store.reactions(user), ({ messageId, emoji, createdAt }) => ({
          messageId,
          emoji,
          createdAt: iso(createdAt),
        })),
      readStates: (user) =>
        mapped(store.readStates(user), ({ conversationPublicId, ...row }) => ({
          ...presentRow(row),
          conversationId: conversationPublicId,
        })),
      attachments: (user) =>
        mapped(store.uploaded(user), (row) => ({ ...presentFile(row), conversationId: row.conversationPublicId })),
      mentions: mentionsOfUser,
      // The responses of other members to a ring are not the user's data; the ring to the user is.
      rings: (user) =>
        mapped(store.rings(user), ({ publicId, roomId, callerUserId, status, answer, startedAt, endedAt }) => ({
          ringId: publicId,
          roomId,
          rang: callerUserId === user.userId,
          status,
          answer,
          startedAt: iso(startedAt),
          endedAt: iso(endedAt),
        })),
      // The user must not learn who blocked them.
      blocks: async function* (user) {
        yield store
          .blocks(user)
          .filter(({ userId }) => userId === user.userId)
          .map(({ blockedUserId, createdAt }) => ({ blockedUserId, createdAt: iso(createdAt) }));
      },
      reports: async function* (user) {
        for await (const rows of store.reports(user)) {
          yield rows
            .filter(({ reporterUserId }) => reporterUserId === user.userId)
            .map(({ publicId, conversationPublicId, messageId, reason, noteText, status, createdAt }) => ({
              reportId: publicId,
              conversationId: conversationPublicId,
              messageId,
              reason,
              note: noteText,
              status,
              createdAt: iso(createdAt),
            }));
        }
      },
      chatConnections: (user) => mapped(store.connections(user), presentRow),
    },

    counts: {
      async messages(user) {
        let count = 0;
        for await (const { id } of store.conversations(user)) count += store.countSent(id, user.userId);
        return count;
      },
    },

    files: filesOf,

    revoke(unit, user) {
      chat.tokens.revokeUser(unit, user, user.userId);
      store.anonymizeTokens(unit, user, now());
    },

    isConnected: (user) =>
      [...chat.sockets.hub.sockets].some(({ caller }) => caller.userId === user.userId && sameTenant(caller, user)),

    async erase(user) {
      const { userId } = user;
      chat.sockets.connections.forget(user, userId);
      await eraseReactions(user);
      await changeEach(write, store.members(user), (unit, row) => chat.members.erase(unit, conversationOf(row), row));
      await changeEach(write, store.readStates(user), store.removeReadState);
      for await (const conversation of store.conversations(user)) await eraseMessages(conversation, userId);
      await eraseAttachments(user);
      await changeEach(write, store.reports(user), (unit, report) => store.removeReport(unit, report, userId));
      await changeEach(write, store.rings(user), (unit, { id }) => store.removeFromRing(unit, id, userId));
      await changeEach(write, [store.blocks(user)], store.removeBlock);
      await changeEach(write, store.connections(user), store.removeConnection);
      for await (const conversation of store.conversations(user)) {
        await eraseMentions(conversation, userId);
        await eraseCallNotes(conversation, userId);
        // The events are erased last, because each change above adds an event.
        await eraseFromEvents(conversation, userId);
      }
      await removeStoredResponses(runtime, (body) => {
        const { id, conversationId } = body as { id?: unknown; conversationId?: unknown };
        return namesUser(body, userId) && chat.conversations.resolve(user, String(conversationId ?? id)) !== null;
      });
      await attachments.removals.run();
    },

    removeAddresses: store.removeAddresses,
  };
}

function presentFile({ publicId, filename, mimeType, size, sha256, status, metadata, createdAt }: AttachmentRow) {
  const parsed = metadata === null ? null : JSON.parse(metadata);
  return { id: publicId, filename, mimeType, size, sha256, status, metadata: parsed, createdAt: iso(createdAt) };
}
