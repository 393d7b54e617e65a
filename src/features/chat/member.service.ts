import { iso } from "../../kernel/clock.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { ChatMemberRole, Metadata } from "../../protocol/chat-records.ts";
import { ApiError } from "../../protocol/errors.ts";
import { type Access, holds, requireActive, requireScope } from "./access.ts";
import type { EventLog } from "./event-log.ts";
import { storedMetadata } from "./limits.ts";
import { showMember } from "./show.ts";
import type { ConversationStore } from "./store/conversation.store.ts";
import type { ConversationRow, MemberRow } from "./store/conversation.table.ts";
import type { MemberStore } from "./store/member.store.ts";

export type NewMember = { userId: string; role?: ChatMemberRole; metadata?: Metadata };

export type UpdateMember = {
  role?: ChatMemberRole;
  mutedUntil?: string | null;
  status?: "ACTIVE" | "BANNED";
  metadata?: Metadata | null;
};

type MemberDeps = { store: MemberStore; conversations: ConversationStore; log: EventLog };

const DIRECT_MEMBERS = 2;
const RANK: Record<ChatMemberRole, number> = { MEMBER: 0, MODERATOR: 1, ADMIN: 2 };

export type MemberService = ReturnType<typeof memberService>;

export function memberService({ bus, config, now }: Runtime, { store, conversations, log }: MemberDeps) {
  const metadataOf = (metadata: Metadata | null | undefined) =>
    storedMetadata(metadata, config.CHAT_MAX_METADATA_BYTES);

  function current(conversationId: string): ConversationRow {
    const row = conversations.find(conversationId);
    if (!row) throw new ApiError("SVC_CONVERSATION_NOT_FOUND");
    return row;
  }

  function cameOrWent(
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
      member: showMember(member),
    });
    const { projectId, environment, publicId: conversationId } = conversation;
    bus.announce(unit, "webhook", {
      type: `participant.${type}`,
      projectId,
      environment,
      at,
      data: { conversationId, userId, role, at: iso(at), seq },
    });
  }

  function requireSeat({ type, memberCount }: ConversationRow): void {
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
    if (joins || leaves) cameOrWent(unit, conversation, after, joins ? "joined" : "left", at);
    else if (after.status === "ACTIVE") {
      const { userId, role } = after;
      log.record(unit, conversation, "member.updated", at, null, { userId, role, member: showMember(after) });
    }
  }

  return {
    list: store.list,
    find: store.find,
    show: showMember,

    /** Adds, or re-activates; an active member takes the role and metadata given. `added` is false when they were active. */
    add(unit: Unit, conversationId: string, input: NewMember): { member: MemberRow; added: boolean } {
      const conversation = current(conversationId);
      if (conversation.status === "ARCHIVED") throw new ApiError("SVC_CONVERSATION_ARCHIVED");
      const at = now();
      const known = store.find(conversationId, input.userId);
      if (known?.status === "BANNED") throw new ApiError("SVC_BANNED", "The user is banned from this conversation.");
      if (!known) {
        requireSeat(conversation);
        const member: MemberRow = {
          conversationId,
          userId: input.userId,
          role: input.role ?? "MEMBER",
          status: "ACTIVE",
          mutedUntil: null,
          metadata: metadataOf(input.metadata),
          joinedAt: at,
          leftAt: null,
        };
        store.insert(unit, member);
        cameOrWent(unit, conversation, member, "joined", at);
        return { member, added: true };
      }
      const metadata = input.metadata === undefined ? known.metadata : metadataOf(input.metadata);
      const member: MemberRow = { ...known, role: input.role ?? known.role, metadata };
      const added = known.status !== "ACTIVE";
      if (added) {
        requireSeat(conversation);
        Object.assign(member, { status: "ACTIVE", joinedAt: at, leftAt: null });
      }
      update(unit, conversation, known, member);
      return { member, added };
    },

    /** Soft: their messages keep an author. Anyone may leave; removing others is managing. */
    remove(unit: Unit, access: Access, userId: string): void {
      if (userId !== access.userId) requireScope(access, "chat:manage");
      requireActive(access);
      const { conversation } = access;
      const known = store.find(conversation.id, userId);
      if (known?.status !== "ACTIVE") throw notAMember(access, userId);
      update(unit, conversation, known, { ...known, status: "LEFT", leftAt: now() });
    },

    /** As if they had never been a member; whoever is watching sees them go. */
    erase(unit: Unit, conversation: ConversationRow, member: MemberRow): void {
      store.remove(unit, conversation.id, member.userId);
      if (member.status !== "ACTIVE") return;
      const at = now();
      conversations.countMembers(unit, conversation.id, -1);
      const gone: MemberRow = { ...member, status: "LEFT", leftAt: at, metadata: null };
      const { userId, role } = member;
      log.record(unit, conversation, "member.left", at, null, { userId, role, member: showMember(gone) });
    },

    /** Roles and metadata are managing; muting and banning are moderating, and reach only those of a lower role. */
    change(unit: Unit, access: Access, userId: string, input: UpdateMember): MemberRow {
      requireScope(access, input.role !== undefined || input.metadata !== undefined ? "chat:manage" : "chat:moderate");
      requireActive(access);
      const { conversation } = access;
      const known = store.find(conversation.id, userId);
      const reachable = known?.status === "ACTIVE" || input.status === "BANNED" || known?.status === "BANNED";
      if (!known || !reachable) throw notAMember(access, userId);
      if (access.kind === "user" && !holds(access, "chat:manage") && RANK[known.role] >= RANK[access.member.role]) {
        throw new ApiError("SVC_PERMISSION_DENIED", "Only members of a lower role can be moderated.");
      }
      const status = input.status ?? known.status;
      const at = now();
      if (status === "ACTIVE" && known.status !== "ACTIVE") requireSeat(conversation);
      const member: MemberRow = {
        ...known,
        role: input.role ?? known.role,
        status,
        mutedUntil: input.mutedUntil === undefined ? known.mutedUntil : millis(input.mutedUntil),
        metadata: input.metadata === undefined ? known.metadata : metadataOf(input.metadata),
        joinedAt: status === "ACTIVE" && known.status !== "ACTIVE" ? at : known.joinedAt,
        leftAt: status === "ACTIVE" ? null : (known.leftAt ?? at),
      };
      update(unit, conversation, known, member);
      return member;
    },
  };
}

/** Tells a server what is missing; to anybody else it says no more than that there is nobody. */
function notAMember(access: Access, userId: string): ApiError {
  if (access.kind !== "server") return new ApiError("SVC_MEMBER_NOT_FOUND");
  const cure = "Membership comes first: add them with POST /v1/chat/conversations/{room}/members.";
  return new ApiError("SVC_MEMBER_NOT_FOUND", `${userId} is no member of this conversation. ${cure}`);
}

function millis(at: string | null): number | null {
  return at === null ? null : Date.parse(at);
}
