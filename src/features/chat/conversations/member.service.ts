import type { Unit } from "../../../kernel/db/writer.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { iso } from "../../../kernel/time/clock.ts";
import type { ChatMemberRole, Metadata } from "../../../protocol/chat-records.ts";
import { ApiError } from "../../../protocol/errors.ts";
import { checkedDisplayName } from "../../rooms/participant.ts";
import { type Access, hasScope, requireActive, requireScope } from "../access.ts";
import type { AddMember, UpdateMember } from "../chat.schema.ts";
import type { EventLog } from "../event-log.ts";
import { storedMetadata } from "../input.ts";
import { presentMember } from "../present.ts";
import type { ChatStores } from "../stores.ts";
import type { ConversationRow, MemberRow } from "./conversation.table.ts";

const DIRECT_MEMBERS = 2;
const RANK: Record<ChatMemberRole, number> = { MEMBER: 0, MODERATOR: 1, ADMIN: 2 };

export type MemberService = ReturnType<typeof memberService>;

export function memberService(
  { bus, config, now }: Runtime,
  { members: store, conversations }: ChatStores,
  log: EventLog,
) {
  const metadataOf = (metadata: Metadata | null | undefined) =>
    storedMetadata(metadata, config.CHAT_MAX_METADATA_BYTES);

  function findConversation(conversationId: string): ConversationRow {
    const row = conversations.find(conversationId);
    if (!row) throw new ApiError("SVC_CONVERSATION_NOT_FOUND");
    return row;
  }

  function recordMembership(
    unit: Unit,
    conversation: ConversationRow,
    member: MemberRow,
    type: "joined" | "left",
    at: number,
  ): void {
    conversations.countMembers(unit, conversation.id, type === "joined" ? 1 : -1);
    const { userId, role } = member;
    const { seq } = log.record(unit, conversation, `member.${type}`, at, null, {
      userId,
      role,
      member: presentMember(member),
    });
    const { projectId, environment, publicId: conversationId } = conversation;
    bus.publish(unit, "webhook", {
      type: `participant.${type}`,
      projectId,
      environment,
      at,
      data: { conversationId, userId, role, at: iso(at), seq },
    });
  }

  function requireDirectCapacity({ type, memberCount }: ConversationRow): void {
    if (type === "DIRECT" && memberCount >= DIRECT_MEMBERS) {
      throw new ApiError("SVC_CONFLICT", "A direct conversation has at most two members.");
    }
  }

  function update(unit: Unit, conversation: ConversationRow, before: MemberRow, after: MemberRow): void {
    if (JSON.stringify(before) === JSON.stringify(after)) return;
    store.save(unit, after);
    const at = now();
    const joins = before.status !== "ACTIVE" && after.status === "ACTIVE";
    const leaves = before.status === "ACTIVE" && after.status !== "ACTIVE";
    if (joins || leaves) recordMembership(unit, conversation, after, joins ? "joined" : "left", at);
    else if (after.status === "ACTIVE") {
      const { userId, role } = after;
      log.record(unit, conversation, "member.updated", at, null, { userId, role, member: presentMember(after) });
    }
  }

  return {
    list: store.list,
    find: store.find,
    nameOf: store.nameOf,
    present: presentMember,

    /** Adds or reactivates a member. An active member gets the new role, name and metadata, with `added` false. */
    add(unit: Unit, conversationId: string, input: AddMember): { member: MemberRow; added: boolean } {
      const conversation = findConversation(conversationId);
      if (conversation.status === "ARCHIVED") throw new ApiError("SVC_CONVERSATION_ARCHIVED");
      const at = now();
      const known = store.find(conversationId, input.userId);
      if (known?.status === "BANNED") throw new ApiError("SVC_BANNED", "The user is banned from this conversation.");
      if (!known) {
        requireDirectCapacity(conversation);
        const member: MemberRow = {
          conversationId,
          userId: input.userId,
          role: input.role ?? "MEMBER",
          status: "ACTIVE",
          mutedUntil: null,
          name: checkedDisplayName(input.name ?? null),
          metadata: metadataOf(input.metadata),
          joinedAt: at,
          leftAt: null,
        };
        store.save(unit, member);
        recordMembership(unit, conversation, member, "joined", at);
        return { member, added: true };
      }
      const metadata = input.metadata === undefined ? known.metadata : metadataOf(input.metadata);
      const name = input.name === undefined ? known.name : checkedDisplayName(input.name);
      const member: MemberRow = { ...known, role: input.role ?? known.role, name, metadata };
      const added = known.status !== "ACTIVE";
      if (added) {
        requireDirectCapacity(conversation);
        Object.assign(member, { status: "ACTIVE", joinedAt: at, leftAt: null });
      }
      update(unit, conversation, known, member);
      return { member, added };
    },

    /** The row stays, so that messages keep their author. Every member may leave; removing others needs chat:manage. */
    remove(unit: Unit, access: Access, userId: string): void {
      if (userId !== access.userId) requireScope(access, "chat:manage");
      requireActive(access);
      const { conversation } = access;
      const known = store.find(conversation.id, userId);
      if (known?.status !== "ACTIVE") throw notAMember(access, userId);
      update(unit, conversation, known, { ...known, status: "LEFT", leftAt: now() });
    },

    /** Removes the row too; clients that have joined the conversation are notified that the member left. */
    erase(unit: Unit, conversation: ConversationRow, member: MemberRow): void {
      store.remove(unit, conversation.id, member.userId);
      if (member.status !== "ACTIVE") return;
      const at = now();
      conversations.countMembers(unit, conversation.id, -1);
      const gone: MemberRow = { ...member, status: "LEFT", leftAt: at, name: null, metadata: null };
      const { userId, role } = member;
      log.record(unit, conversation, "member.left", at, null, { userId, role, member: presentMember(gone) });
    },

    /** Roles, names and metadata need chat:manage; muting and banning need chat:moderate and a higher role than the member's. */
    change(unit: Unit, access: Access, userId: string, input: UpdateMember): MemberRow {
      const { role, name, metadata } = input;
      const isManaged = role !== undefined || name !== undefined || metadata !== undefined;
      requireScope(access, isManaged ? "chat:manage" : "chat:moderate");
      requireActive(access);
      const { conversation } = access;
      const known = store.find(conversation.id, userId);
      const isChangeable = known?.status === "ACTIVE" || input.status === "BANNED" || known?.status === "BANNED";
      if (!known || !isChangeable) throw notAMember(access, userId);
      if (access.kind === "user" && !hasScope(access, "chat:manage") && RANK[known.role] >= RANK[access.member.role]) {
        throw new ApiError("SVC_PERMISSION_DENIED", "Only members of a lower role can be moderated.");
      }
      const status = input.status ?? known.status;
      const at = now();
      if (status === "ACTIVE" && known.status !== "ACTIVE") requireDirectCapacity(conversation);
      const member: MemberRow = {
        ...known,
        role: role ?? known.role,
        status,
        mutedUntil: input.mutedUntil === undefined ? known.mutedUntil : millis(input.mutedUntil),
        name: name === undefined ? known.name : checkedDisplayName(name),
        metadata: metadata === undefined ? known.metadata : metadataOf(metadata),
        joinedAt: status === "ACTIVE" && known.status !== "ACTIVE" ? at : known.joinedAt,
        leftAt: status === "ACTIVE" ? null : (known.leftAt ?? at),
      };
      update(unit, conversation, known, member);
      return member;
    },
  };
}

/** Only a backend is told the remedy; a user is only told that the member does not exist. */
function notAMember(access: Access, userId: string): ApiError {
  if (access.kind !== "server") return new ApiError("SVC_MEMBER_NOT_FOUND");
  const cure = "Membership comes first: add them with POST /v1/chat/conversations/{room}/members.";
  return new ApiError("SVC_MEMBER_NOT_FOUND", `${userId} is no member of this conversation. ${cure}`);
}

function millis(at: string | null): number | null {
  return at === null ? null : Date.parse(at);
}
