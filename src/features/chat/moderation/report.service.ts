import type { Author } from "../../../kernel/author.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import { DAY_MS, iso } from "../../../kernel/time/clock.ts";
import type { Message, Report, ReportAction, ReportReason } from "../../../protocol/chat-records.ts";
import { ApiError, invalid } from "../../../protocol/errors.ts";
import type { Access, MessageAccess } from "../access.ts";
import type { ConversationStore } from "../conversations/conversation.store.ts";
import type { ConversationRow } from "../conversations/conversation.table.ts";
import type { MemberService } from "../conversations/member.service.ts";
import { emptyAsNull } from "../input.ts";
import type { MessageService } from "../messages/message.service.ts";
import type { ReportRow } from "./moderation.table.ts";
import { reportStore } from "./report.store.ts";

type NewReport = { reason: ReportReason; note?: string };
type Resolution = { action: ReportAction; muteSeconds?: number };

type ReportDeps = {
  conversations: ConversationStore;
  messages: MessageService;
  members: MemberService;
  asServer: (conversationId: string) => Access;
};

/** The reporter of messages that match the word list; it is not a valid user id. */
const WORD_LIST = "(word list)";
const DEFAULT_MUTE_SECONDS = 24 * 3600;
const KEEP_MS = 90 * DAY_MS;
const PRUNE_BATCH = 200;

export type ReportService = ReturnType<typeof reportService>;

/** The moderation queue: reports by users and by the word list, and their resolution. */
export function reportService({ bus, db, ids, now, write }: Runtime, deps: ReportDeps) {
  const { conversations, messages, members, asServer } = deps;
  const store = reportStore(db);

  function insert(unit: Unit, conversation: ConversationRow, message: ReportedMessage, by: string, input: NewReport) {
    const { projectId, environment } = conversation;
    const row: ReportRow = {
      id: ids.uuid(),
      publicId: ids.publicId("report"),
      projectId,
      environment,
      conversationId: conversation.id,
      messageId: message.id,
      senderId: message.senderId,
      reporterUserId: by,
      reason: input.reason,
      noteText: emptyAsNull(input.note),
      status: "OPEN",
      action: null,
      createdAt: now(),
      resolvedAt: null,
    };
    store.insert(unit, row);
    bus.publish(unit, "webhook", {
      type: "message.reported",
      projectId,
      environment,
      at: row.createdAt,
      data: {
        reportId: row.publicId,
        messageId: row.messageId,
        conversationId: conversation.publicId,
        senderId: row.senderId,
        reporterId: reporterOf(row),
        reason: row.reason,
        at: iso(row.createdAt),
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

  /** Shows the current state of the message, so that deleted content is not visible. */
  function present(row: ReportRow): Report {
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
      message: conversation && message ? messages.present(conversation, message) : null,
      createdAt: iso(row.createdAt),
      resolvedAt: iso(row.resolvedAt),
    };
  }

  return {
    present,
    find,
    list: store.list,

    /** One report per message and user; a second call returns the first report. */
    report(unit: Unit, { access, message }: MessageAccess, by: string, input: NewReport) {
      const known = store.findByReporter(message.publicId, by);
      if (known) return { report: present(known), isNew: false };
      if (message.deletedAt !== null) throw new ApiError("SVC_MESSAGE_DELETED");
      if (message.senderId === by) throw invalid("messageId", "is the user's own message");
      const subject = { id: message.publicId, senderId: message.senderId };
      return { report: present(insert(unit, access.conversation, subject, by, input)), isNew: true };
    },

    flag(unit: Unit, conversation: ConversationRow, message: Message): void {
      if (store.findByReporter(message.id, WORD_LIST)) return;
      insert(unit, conversation, message, WORD_LIST, { reason: "other", note: "Matches the word list." });
    },

    /** Resolves all open reports of the same message. */
    resolve(unit: Unit, tenant: Tenant, reportId: string, input: Resolution, author: Author): Report {
      const row = find(tenant, reportId);
      if (row.status === "RESOLVED") throw new ApiError("SVC_CONFLICT", "The report is resolved already.");
      act(unit, row, input);
      const at = now();
      store.resolve(unit, row.messageId, input.action, at);
      const { projectId, environment } = row;
      bus.publish(unit, "audit", {
        ...author,
        environment,
        action: "report.resolved",
        projectId,
        resourceId: row.publicId,
        at,
        metadata: { action: input.action },
      });
      return present(find(tenant, reportId));
    },

    /** A job's task: removes reports that were resolved long ago. */
    async prune(): Promise<void> {
      while (await write((unit) => store.prune(unit, now() - KEEP_MS, PRUNE_BATCH)));
    },
  };
}

type ReportedMessage = Pick<Message, "id" | "senderId">;

function reporterOf({ reporterUserId }: ReportRow): string | null {
  return reporterUserId === WORD_LIST ? null : reporterUserId;
}
