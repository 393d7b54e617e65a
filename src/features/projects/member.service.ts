import type { Author } from "../../kernel/author.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { iso } from "../../kernel/time/clock.ts";
import type { ProjectRole } from "../../protocol/enums.ts";
import { ApiError } from "../../protocol/errors.ts";
import { PERMISSIONS } from "../../protocol/permissions.ts";
import { type Member, memberStore } from "./member.store.ts";

export type MemberService = ReturnType<typeof memberService>;

export function memberService({ db, bus, now }: Runtime) {
  const store = memberStore(db);

  function find(projectId: string, userId: string): Member {
    const member = store.find(projectId, userId);
    if (!member) throw new ApiError("SVC_MEMBER_NOT_FOUND");
    return member;
  }

  /** A project always has an owner: only an owner can archive it or make another owner, and its usage is accounted to one. */
  function requireOtherOwner({ projectId, role }: Member): void {
    if (role === "OWNER" && store.ownerCount(projectId) === 1) throw new ApiError("SVC_LAST_OWNER");
  }

  const audit = (
    unit: Unit,
    action: "member.added" | "member.removed" | "member.role_changed",
    { projectId, userId }: { projectId: string; userId: string },
    metadata: Record<string, unknown>,
    author: Author,
  ) => bus.publish(unit, "audit", { ...author, action, projectId, resourceId: userId, metadata, at: now() });

  return {
    roleIn: store.roleIn,
    list: store.list,
    present,

    /** Adds a member without a check or an audit entry; called for the owner of a new project. */
    join: (unit: Unit, projectId: string, userId: string, role: ProjectRole) =>
      store.insert(unit, { projectId, userId, role, addedAt: now() }),

    /** `added` is false for a member who already has that role. */
    add(
      unit: Unit,
      projectId: string,
      userId: string,
      role: ProjectRole,
      author: Author,
    ): { added: boolean; member: Member } {
      const present = store.find(projectId, userId);
      if (present) {
        if (present.role === role) return { added: false, member: present };
        throw new ApiError("SVC_CONFLICT", `This user is a member already, as ${present.role}.`);
      }
      store.insert(unit, { projectId, userId, role, addedAt: now() });
      audit(unit, "member.added", { projectId, userId }, { role }, author);
      return { added: true, member: find(projectId, userId) };
    },

    changeRole(
      unit: Unit,
      projectId: string,
      userId: string,
      role: ProjectRole,
      callerRole: ProjectRole,
      author: Author,
    ): Member {
      const member = find(projectId, userId);
      requireOwnerFor(callerRole, member.role, role);
      if (member.role === role) return member;
      requireOtherOwner(member);
      store.setRole(unit, projectId, userId, role);
      audit(unit, "member.role_changed", member, { fields: ["role"] }, author);
      return { ...member, role };
    },

    remove(unit: Unit, projectId: string, userId: string, callerRole: ProjectRole, author: Author): void {
      const isSelf = author.actor?.type === "user" && author.actor.id === userId;
      if (!isSelf && !PERMISSIONS[callerRole].includes("members:manage")) throw new ApiError("SVC_PERMISSION_DENIED");
      const member = find(projectId, userId);
      if (!isSelf) requireOwnerFor(callerRole, member.role);
      requireOtherOwner(member);
      store.delete(unit, projectId, userId);
      audit(unit, "member.removed", member, {}, author);
    },
  };
}

/** Only an owner may grant, change or remove the role OWNER. */
export function requireOwnerFor(callerRole: ProjectRole, ...roles: ProjectRole[]): void {
  if (roles.includes("OWNER") && !PERMISSIONS[callerRole].includes("owners:manage")) {
    throw new ApiError("SVC_PERMISSION_DENIED");
  }
}

function present(member: Member) {
  return {
    userId: member.userId,
    email: member.email,
    name: member.name,
    role: member.role,
    capabilities: [...PERMISSIONS[member.role]],
    addedAt: iso(member.addedAt),
  };
}
