import { Elysia, t } from "elysia";
import { authorOf } from "../../../kernel/http/callers.ts";
import { permit } from "../../../kernel/http/guards.ts";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import { EnvironmentQuery } from "../../../kernel/http/schema.ts";
import { NEWEST, page, pageQuery } from "../../../kernel/http/serving/pages.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { Email } from "../../accounts/account.schema.ts";
import type { InvitationService } from "../invitation.service.ts";
import type { MemberService } from "../member.service.ts";
import { Invitation } from "./invitation.schema.ts";
import { Member, ProjectRole } from "./member.schema.ts";

export const memberRoutes = (
  { guards }: Http,
  { write }: Runtime,
  { members, invitations }: { members: MemberService; invitations: InvitationService },
) =>
  new Elysia({ prefix: "/v1/projects/:projectId/members", tags: ["members"] })
    .use(guards.member)
    .get(
      "",
      (context) =>
        page(context, context.query, {
          name: "members",
          shape: ["number", "string"],
          read: (after, limit) =>
            members.list(
              context.projectId,
              Number(after?.[0] ?? Number.MAX_SAFE_INTEGER),
              String(after?.[1] ?? NEWEST),
              limit,
            ),
          position: (member) => [member.addedAt, member.userId],
          show: members.show,
        }),
      {
        ...documented("Members of the project", ["SVC_PROJECT_NOT_FOUND", "SVC_INVALID_CURSOR"]),
        transform: permit("members:read"),
        query: t.Object(pageQuery),
        response: { 200: t.Array(Member) },
      },
    )
    .post(
      "",
      async (context) => {
        const { projectId, role: by, body, set } = context;
        const result = await write((unit) => invitations.addByEmail(unit, projectId, body, by, authorOf(context)));
        if (result.kind === "invited") {
          set.status = 202;
          return invitations.show(result.invitation);
        }
        set.status = result.added ? 201 : 200;
        return members.show(result.member);
      },
      {
        ...documented(
          "Add a member",
          ["SVC_PROJECT_NOT_FOUND", "SVC_PERMISSION_DENIED", "SVC_CONFLICT"],
          "Somebody with an account is a member at once (201, or 200 when it was so already). Any other address gets an invitation by mail (202).",
        ),
        transform: permit("members:manage"),
        query: t.Object(EnvironmentQuery),
        body: t.Object({ email: Email, role: ProjectRole }),
        response: { 200: Member, 201: Member, 202: Invitation },
      },
    )
    .patch(
      "/:userId",
      async (context) => {
        const { projectId, params, role: by, body } = context;
        return members.show(
          await write((unit) => members.changeRole(unit, projectId, params.userId, body.role, by, authorOf(context))),
        );
      },
      {
        ...documented("Change a member's role", [
          "SVC_PROJECT_NOT_FOUND",
          "SVC_PERMISSION_DENIED",
          "SVC_CONFLICT",
          "SVC_MEMBER_NOT_FOUND",
          "SVC_LAST_OWNER",
        ]),
        transform: permit("members:manage"),
        query: t.Object(EnvironmentQuery),
        body: t.Object({ role: ProjectRole }),
        response: { 200: Member },
      },
    )
    .delete(
      "/:userId",
      async (context) => {
        const { projectId, params, role: by } = context;
        await write((unit) => members.remove(unit, projectId, params.userId, by, authorOf(context)));
        context.set.status = 204;
      },
      {
        ...documented(
          "Remove a member",
          ["SVC_PROJECT_NOT_FOUND", "SVC_PERMISSION_DENIED", "SVC_MEMBER_NOT_FOUND", "SVC_LAST_OWNER"],
          "Members may remove themselves, whatever their role.",
        ),
        query: t.Object(EnvironmentQuery),
      },
    );
