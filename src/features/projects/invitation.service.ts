import { randomBytes } from "node:crypto";
import type { Author } from "../../kernel/author.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { DAY_MS, iso } from "../../kernel/time/clock.ts";
import type { ProjectRole } from "../../protocol/enums.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { Users } from "../accounts/accounts.ts";
import { type InvitationRow, invitationStore } from "./invitation.store.ts";
import { type MemberService, requireOwnerFor } from "./member.service.ts";
import type { Member } from "./member.store.ts";
import type { ProjectService } from "./project.service.ts";

/** The lifetime is longer than that of other links, because the recipient does not expect the mail. */
const LIFETIME_MS = 7 * DAY_MS;

type InvitationDeps = Users & { members: MemberService; projects: ProjectService };

export type InvitationService = ReturnType<typeof invitationService>;

export function invitationService(runtime: Runtime, { users, members, projects, mailer, mailTexts }: InvitationDeps) {
  const { bus, db, ids, keyring, now } = runtime;
  const store = invitationStore(db);

  function find(token: string): InvitationRow {
    const digests = keyring.acceptedDigests("one-time", token);
    const [row] = digests.flatMap((digest) => store.findByDigest(digest, now()) ?? []);
    if (!row || projects.isArchived(row.projectId)) throw new ApiError("SVC_INVALID_ONE_TIME_TOKEN");
    return row;
  }

  // The entry does not contain the e-mail address, because it outlives the person's data.
  const audit = (
    unit: Unit,
    action: "invitation.created" | "invitation.withdrawn",
    projectId: string,
    resourceId: string,
    metadata: Record<string, unknown>,
    author: Author,
  ) => bus.publish(unit, "audit", { ...author, action, projectId, resourceId, metadata, at: now() });

  function invite(unit: Unit, projectId: string, email: string, role: ProjectRole, author: Author): InvitationRow {
    const at = now();
    const token = randomBytes(32).toString("base64url");
    const row: InvitationRow = {
      id: ids.uuid(),
      digest: keyring.digest("one-time", token),
      projectId,
      email: users.normalizeEmail(email),
      role,
      invitedBy: author.actor?.type === "user" ? author.actor.email : null,
      createdAt: at,
      expiresAt: at + LIFETIME_MS,
    };
    store.deleteExpired(unit, at);
    store.replace(unit, row);
    const { name } = projects.find(projectId);
    const mail = mailTexts.invitation(row.email, token, name, row.invitedBy);
    unit.afterCommit(() => mailer.post(async () => mail));
    audit(unit, "invitation.created", projectId, row.id, { role }, author);
    return row;
  }

  return {
    list: (projectId: string, before: string, limit: number) => store.list(projectId, now(), before, limit),
    present,

    /** Called by the page of the link, before the user accepts. */
    preview(token: string) {
      const { email, role, invitedBy, expiresAt, projectId } = find(token);
      return { projectName: projects.find(projectId).name, email, role, invitedBy, expiresAt: iso(expiresAt) };
    },
    emailOf: (token: string): string => find(token).email,

    /** A user with an account becomes a member at once; an unknown e-mail address gets an invitation. */
    addByEmail(
      unit: Unit,
      projectId: string,
      { email, role }: { email: string; role: ProjectRole },
      callerRole: ProjectRole,
      author: Author,
    ): { kind: "member"; added: boolean; member: Member } | { kind: "invited"; invitation: InvitationRow } {
      requireOwnerFor(callerRole, role);
      const user = users.findByEmail(email);
      if (user) return { kind: "member", ...members.add(unit, projectId, user.id, role, author) };
      return { kind: "invited", invitation: invite(unit, projectId, email, role, author) };
    },

    /** The link admits any signed-in user, regardless of the e-mail address. A member keeps its role. */
    accept(unit: Unit, token: string, userId: string, author: Author): { projectId: string; role: ProjectRole } {
      const { id, projectId, role } = find(token);
      store.delete(unit, projectId, id);
      const current = members.roleIn(projectId, userId);
      if (current === null) members.add(unit, projectId, userId, role, author);
      return { projectId, role: current ?? role };
    },

    withdraw(unit: Unit, projectId: string, id: string, author: Author): void {
      if (!store.delete(unit, projectId, id)) throw new ApiError("SVC_INVITATION_NOT_FOUND");
      audit(unit, "invitation.withdrawn", projectId, id, {}, author);
    },
  };
}

function present(row: InvitationRow) {
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
