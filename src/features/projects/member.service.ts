import type { Author } from "../../kernel/author.ts";
import { iso } from "../../kernel/clock.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { ProjectRole } from "../../protocol/enums.ts";
import { ApiError } from "../../protocol/errors.ts";
import { PERMISSIONS } from "../../protocol/permissions.ts";
import { type Member, memberStore } from "./store/member.store.ts";

export type MemberService = ReturnType<typeof memberService>;

/** `by` is whose role decides what may be granted. */
export function memberService({ db, bus, now }: Runtime) {
  const store = memberStore(db);

  function find(projectId: string, userId: string): Member {
    const member = store.find(projectId, userId);
    if (!member) throw new ApiError("SVC_MEMBER_NOT_FOUND");
    return member;
  }

  /** The usage, the archive and the last word belong to an owner: there is always one. */
  function keepAnOwner({ projectId, role }: Member): void {
    if (role === "OWNER" && store.ownerCount(projectId) === 1) throw new ApiError("SVC_LAST_OWNER");
  }

  const record = (
    unit: Unit,
    action: "member.added" | "member.removed" | "member.role_changed",
    { projectId, userId }: { projectId: string; userId: string },
    metadata: Record<string, unknown>,
    author: Author,
  ) => bus.publish(unit, "audit", { ...author, action, projectId, resourceId: userId, metadata, at: now() });

  return {
    roleIn: store.roleIn,
    list: store.list,
    show,

    /** Without a rule or a record: for the owner of a new project. */
    join: (unit: Unit, projectId: string, userId: string, role: ProjectRole) =>
      store.insert(unit, { projectId, userId, role, addedAt: now() }),

    /** `added` is false for somebody who has that role already. */
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
      record(unit, "member.added", { projectId, userId }, { role }, author);
      return { added: true, member: find(projectId, userId) };
    },

    changeRole(
      unit: Unit,
      projectId: string,
      userId: string,
      role: ProjectRole,
      by: ProjectRole,
      author: Author,
    ): Member {
      const member = find(projectId, userId);
      requireOwnerFor(by, member.role, role);
      if (member.role === role) return member;
      keepAnOwner(member);
      store.setRole(unit, projectId, userId, role);
      record(unit, "member.role_changed", member, { fields: ["role"] }, author);
      return { ...member, role };
    },

    remove(unit: Unit, projectId: string, userId: string, by: ProjectRole, author: Author): void {
      const leaves = author.actor?.id === userId;
      if (!leaves && !PERMISSIONS[by].includes("members:manage")) throw new ApiError("SVC_PERMISSION_DENIED");
      const member = find(projectId, userId);
      if (!leaves) requireOwnerFor(by, member.role);
      keepAnOwner(member);
      store.delete(unit, projectId, userId);
      record(unit, "member.removed", member, {}, author);
    },
  };
}

/** Only an owner makes, changes or removes an owner. */
export function requireOwnerFor(by: ProjectRole, ...roles: ProjectRole[]): void {
  if (roles.includes("OWNER") && !PERMISSIONS[by].includes("owners:manage")) {
    throw new ApiError("SVC_PERMISSION_DENIED");
  }
}

function show(member: Member) {
  return {
    userId: member.userId,
    email: member.email,
    name: member.name,
    role: member.role,
    capabilities: [...PERMISSIONS[member.role]],
    addedAt: iso(member.addedAt),
  };
}
