import type { Author } from "../../../kernel/author.ts";
import { iso } from "../../../kernel/clock.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import type { Message, Report, ReportAction, ReportReason } from "../../../protocol/chat-records.ts";
import { ApiError, invalid } from "../../../protocol/errors.ts";
import type { Access, MessageAccess } from "../access.ts";
import type { ConversationStore } from "../conversations/conversation.store.ts";
import type { ConversationRow } from "../conversations/conversation.table.ts";
import type { MemberService } from "../conversations/member.service.ts";
import { given } from "../input.ts";
import type { MessageService } from "../messages/message.service.ts";
import type { ReportRow } from "./moderation.table.ts";
import type { ReportStore } from "./report.store.ts";

export type NewReport = { reason: ReportReason; note?: string };
export type Resolution = { action: ReportAction; muteSeconds?: number };

type ReportDeps = {
  store: ReportStore;
  conversations: ConversationStore;
  messages: MessageService;
  members: MemberService;
  asServer: (conversationId: string) => Access;
};

/** Stands where a reporter would: no identity can be spelled like that. */
const WORD_LIST = "(word list)";
const DEFAULT_MUTE_SECONDS = 24 * 3600;
const KEPT_MS = 90 * 86_400_000;
const PRUNED_AT_ONCE = 200;

export type ReportService = ReturnType<typeof reportService>;

/** What users and word lists bring before the moderators, and what is done about it. */
export function reportService({ bus, ids, now, write }: Runtime, deps: ReportDeps) {
  const { store, conversations, messages, members, asServer } = deps;

  function insert(unit: Unit, conversation: ConversationRow, message: ReportedMessage, by: string, input: NewReport) {
    const { projectId, environment } = conversation;
    const row: ReportRow = {
      ...{ id: ids.uuid(), publicId: ids.publicId("report"), projectId, environment },
      ...{ conversationId: conversation.id, messageId: message.id, senderId: message.senderId, reporterUserId: by },
      ...{ reason: input.reason, noteText: given(input.note), status: "OPEN", action: null },
      ...{ createdAt: now(), resolvedAt: null },
    };
    store.insert(unit, row);
    bus.publish(unit, "webhook", {
      ...{ type: "message.reported", projectId, environment, at: row.createdAt },
      data: {
        ...{ reportId: row.publicId, messageId: row.messageId, conversationId: conversation.publicId },
        ...{ senderId: row.senderId, reporterId: reporterOf(row), reason: row.reason, at: iso(row.createdAt) },
      },
    });
    return row;
  }

  function find(tenant: Tenant, reportId: string): ReportRow {
    const row = store.find(tenant, reportId);
    if (!row) throw new ApiError("SVC_REPORT_NOT_FOUND");
    return row;
  }

  function act(unit: Unit, row: ReportRow, { action, muteSeconds = DEFAULT_MUTE_SECONDS }: Resolution): void {
    const access = asServer(row.conversationId);
    switch (action) {
      case "none":
        return;
      case "delete_message": {
        const message = messages.store.find(row.messageId);
        if (message) messages.delete(unit, { access, message });
        return;
      }
      case "mute_sender":
      case "ban_sender": {
        if (row.senderId === null) throw invalid("action", "needs a sender, and the message has none");
        const mutedUntil = iso(now() + muteSeconds * 1000);
        members.change(unit, access, row.senderId, action === "ban_sender" ? { status: "BANNED" } : { mutedUntil });
      }
    }
  }

  /** With the message as it is now: what was deleted is gone from here as well. */
  function show(row: ReportRow): Report {
    const conversation = conversations.find(row.conversationId);
    const message = messages.store.find(row.messageId);
    return {
      id: row.publicId,
      conversationId: conversation?.publicId ?? row.conversationId,
      messageId: row.messageId,
      senderId: row.senderId,
      reporterId: reporterOf(row),
      reason: row.reason,
      note: row.noteText,
      status: row.status,
      action: row.action,
      message: conversation && message ? messages.show(conversation, message) : null,
      createdAt: iso(row.createdAt),
      resolvedAt: iso(row.resolvedAt),
    };
  }

  return {
    show,
    find,
    list: store.list,
    countOpen: store.countOpen,

    /** Once per message and user; again gives the first. */
    report(unit: Unit, { access, message }: MessageAccess, by: string, input: NewReport) {
      const known = store.by(message.publicId, by);
      if (known) return { report: show(known), isNew: false };
      if (message.deletedAt !== null) throw new ApiError("SVC_MESSAGE_DELETED");
      if (message.senderId === by) throw invalid("messageId", "is the user's own message");
      const subject = { id: message.publicId, senderId: message.senderId };
      return { report: show(insert(unit, access.conversation, subject, by, input)), isNew: true };
    },

    /** A message with a word that is to be looked at. */
    flag(unit: Unit, conversation: ConversationRow, message: Message): void {
      if (store.by(message.id, WORD_LIST)) return;
      insert(unit, conversation, message, WORD_LIST, { reason: "other", note: "Matches the word list." });
    },

    /** Every open report of the same message is resolved with it. */
    resolve(unit: Unit, tenant: Tenant, reportId: string, input: Resolution, author: Author): Report {
      const row = find(tenant, reportId);
      if (row.status === "RESOLVED") throw new ApiError("SVC_CONFLICT", "The report is resolved already.");
      act(unit, row, input);
      const at = now();
      store.resolve(unit, row.messageId, input.action, at);
      const { projectId, environment } = row;
      bus.publish(unit, "audit", {
        ...{ ...author, environment, action: "report.resolved", projectId, resourceId: row.publicId, at },
        metadata: { action: input.action },
      });
      return show(find(tenant, reportId));
    },

    /** Forgets what was resolved long ago; called by a job. */
    async prune(): Promise<void> {
      while (await write((unit) => store.prune(unit, now() - KEPT_MS, PRUNED_AT_ONCE)));
    },
  };
}

type ReportedMessage = Pick<Message, "id" | "senderId">;

function reporterOf({ reporterUserId }: ReportRow): string | null {
  return reporterUserId === WORD_LIST ? null : reporterUserId;
}
