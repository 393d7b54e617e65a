import type { Unit } from "../../../kernel/db/writer.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import { iso } from "../../../kernel/time/clock.ts";
import type { ConversationType } from "../../../protocol/chat-records.ts";
import { ApiError, invalid } from "../../../protocol/errors.ts";
import { UUID_PATTERN } from "../../../protocol/ids.ts";
import type { Access } from "../access.ts";
import type { CreateConversation, UpdateConversation } from "../chat.schema.ts";
import type { EventLog } from "../event-log.ts";
import { emptyAsNull, storedMetadata } from "../input.ts";
import { presentConversation } from "../present.ts";
import type { ConversationStore } from "./conversation.store.ts";
import type { ConversationRow } from "./conversation.table.ts";
import type { MemberService } from "./member.service.ts";

type ConversationDeps = {
  store: ConversationStore;
  members: MemberService;
  log: EventLog;
  /** Throws unless the RTC room exists in this tenant and is open. */
  openRoomId: (tenant: Tenant, reference: string) => string;
};

const RESERVED = new RegExp(`^(?:\\.\\.?|conv_.*|${UUID_PATTERN.slice(1, -1)})$`, "i");

export function conversationService(
  { bus, config, ids, now }: Runtime,
  { store, members, log, openRoomId }: ConversationDeps,
) {
  /** A name must not look like an id, and must not be `.` or `..`, which URL parsers remove. */
  function requireFreeName(tenant: Tenant, name: string): void {
    if (RESERVED.test(name)) throw invalid("name", "must not look like an id");
    if (store.findByName(tenant, name)) throw new ApiError("SVC_CONFLICT", "A conversation of this name exists.");
  }

  function typeOf(type: ConversationType | undefined, roomId: string | null): ConversationType {
    if (roomId !== null) return "ROOM";
    if (type === "ROOM") throw invalid("roomId", "is required for a conversation of type ROOM");
    return type ?? "CHANNEL";
  }

  return {
    list: store.list,
    listOfUser: store.listOfUser,
    resolve: store.resolve,
    find: store.find,
    totals: store.totals,
    attachmentTotals: store.attachmentTotals,
    present: presentConversation,

    create(unit: Unit, { projectId, environment }: Tenant, input: CreateConversation): ConversationRow {
      const tenant = { projectId, environment };
      const at = now();
      requireFreeName(tenant, input.name);
      const reference = emptyAsNull(input.roomId);
      const roomId = reference === null ? null : openRoomId(tenant, reference);
      if (roomId !== null) {
        const attached = store.resolve(tenant, roomId);
        if (attached) throw new ApiError("SVC_CONFLICT", "The room has a conversation already.");
      }
      const row: ConversationRow = {
        id: ids.uuid(),
        publicId: ids.publicId("conversation"),
        ...tenant,
        name: input.name,
        type: typeOf(input.type, roomId),
        status: "ACTIVE",
        roomId,
        retentionDays: input.retentionDays ?? null,
        metadata: storedMetadata(input.metadata, config.CHAT_MAX_METADATA_BYTES),
        slowModeSeconds: 0,
        memberCount: 0,
        lastSeq: 0,
        logStartSeq: 0,
        lastOrdinal: 0,
        removedOrdinal: 0,
        messageCount: 0,
        reactionCount: 0,
        day: 0,
        dayStartOrdinal: 0,
        lastMessageAt: null,
        createdAt: at,
        updatedAt: at,
      };
      store.insert(unit, row);
      bus.publish(unit, "webhook", {
        type: "room.created",
        ...tenant,
        at,
        data: {
          conversationId: row.publicId,
          name: row.name,
          type: row.type,
          roomId: row.roomId,
          createdAt: iso(at),
          seq: 0,
        },
      });
      for (const member of input.members ?? []) members.add(unit, row.id, member);
      return store.find(row.id) ?? row;
    },

    /** An update that changes nothing records no event. */
    update(unit: Unit, { conversation }: Access, input: UpdateConversation): ConversationRow {
      const hasOtherFields = Object.entries(input).some(([field, value]) => field !== "status" && value !== undefined);
      if (conversation.status === "ARCHIVED" && hasOtherFields) throw new ApiError("SVC_CONVERSATION_ARCHIVED");
      const { name = conversation.name, status = conversation.status } = input;
      if (name !== conversation.name) requireFreeName(conversation, name);
      const metadata =
        input.metadata === undefined
          ? conversation.metadata
          : storedMetadata(input.metadata, config.CHAT_MAX_METADATA_BYTES);
      const { retentionDays = conversation.retentionDays, slowModeSeconds = conversation.slowModeSeconds } = input;
      const change = { name, status, metadata, retentionDays, slowModeSeconds };
      if (JSON.stringify({ ...conversation, ...change }) === JSON.stringify(conversation)) return conversation;

      const at = now();
      const row = { ...conversation, ...change, updatedAt: at };
      store.update(unit, conversation.id, { ...change, updatedAt: at });
      const event = log.record(unit, row, "conversation.updated", at, null, (seq) => ({
        conversation: presentConversation({ ...row, lastSeq: seq }),
      }));
      return { ...row, lastSeq: event.seq };
    },
  };
}
