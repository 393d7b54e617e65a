import { randomBytes } from "node:crypto";
import type { Author } from "../../kernel/author.ts";
import { iso } from "../../kernel/clock.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { ProjectRole } from "../../protocol/enums.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { MailTexts } from "../accounts/mail/mail-texts.ts";
import type { Mailer } from "../accounts/mail/mailer.ts";
import type { UserService } from "../accounts/user.service.ts";
import { type MemberService, requireOwnerFor } from "./member.service.ts";
import type { ProjectService } from "./project.service.ts";
import { invitationStore } from "./store/invitation.store.ts";
import type { InvitationRow } from "./store/invitation.table.ts";
import type { Member } from "./store/member.store.ts";

/** Longer than other links: it comes unasked, and perhaps on a Friday. */
const LIFETIME_MS = 7 * 86_400_000;

type InvitationDeps = {
  users: UserService;
  members: MemberService;
  projects: ProjectService;
  mailer: Mailer;
  mailTexts: MailTexts;
};

export type InvitationService = ReturnType<typeof invitationService>;

export function invitationService(runtime: Runtime, { users, members, projects, mailer, mailTexts }: InvitationDeps) {
  const { db, ids, keyring, now } = runtime;
  const store = invitationStore(db);

  function find(token: string): InvitationRow {
    const row = store.findByDigest(keyring.digest("one-time", token), now());
    if (!row || projects.isArchived(row.projectId)) throw new ApiError("SVC_INVALID_ONE_TIME_TOKEN");
    return row;
  }

  function invite(unit: Unit, projectId: string, email: string, role: ProjectRole, author: Author): InvitationRow {
    const at = now();
    const token = randomBytes(32).toString("base64url");
    const row: InvitationRow = {
      id: ids.uuid(),
      digest: keyring.digest("one-time", token),
      projectId,
      email: users.normalEmail(email),
      role,
      invitedBy: author.actor?.email ?? null,
      createdAt: at,
      expiresAt: at + LIFETIME_MS,
    };
    store.deleteExpired(unit, at);
    store.replace(unit, row);
    const { name } = projects.find(projectId);
    const mail = mailTexts.invitation(row.email, token, name, row.invitedBy);
    unit.afterCommit(() => mailer.post(async () => mail));
    return row;
  }

  return {
    list: (projectId: string, before: string, limit: number) => store.list(projectId, now(), before, limit),
    show,

    /** What the page behind the link shows before anyone accepts. */
    preview(token: string) {
      const { email, role, invitedBy, expiresAt, projectId } = find(token);
      return { projectName: projects.find(projectId).name, email, role, invitedBy, expiresAt: iso(expiresAt) };
    },
    emailOf: (token: string): string => find(token).email,

    /** Somebody with an account is a member at once, an unknown address gets an invitation. */
    addByEmail(
      unit: Unit,
      projectId: string,
      { email, role }: { email: string; role: ProjectRole },
      by: ProjectRole,
      author: Author,
    ): { kind: "member"; added: boolean; member: Member } | { kind: "invited"; invitation: InvitationRow } {
      requireOwnerFor(by, role);
      const user = users.findByEmail(email);
      if (user) return { kind: "member", ...members.add(unit, projectId, user.id, role, author) };
      return { kind: "invited", invitation: invite(unit, projectId, email, role, author) };
    },

    /** Whoever holds the link may accept it. A member keeps the role that is held already. */
    accept(unit: Unit, token: string, userId: string, author: Author): { projectId: string; role: ProjectRole } {
      const { id, projectId, role } = find(token);
      store.delete(unit, projectId, id);
      const held = members.roleIn(projectId, userId);
      if (held === null) members.add(unit, projectId, userId, role, author);
      return { projectId, role: held ?? role };
    },

    withdraw(unit: Unit, projectId: string, id: string): void {
      if (!store.delete(unit, projectId, id)) throw new ApiError("SVC_INVITATION_NOT_FOUND");
    },
  };
}

function show(row: InvitationRow) {
  return {
    id: row.id,
    projectId: row.projectId,
    email: row.email,
    role: row.role,
    invitedBy: row.invitedBy,
    createdAt: iso(row.createdAt),
    expiresAt: iso(row.expiresAt),
  };
}
