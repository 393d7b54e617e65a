import { Elysia, t } from "elysia";
import { authorOf } from "../../kernel/http/callers.ts";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { EnvironmentQuery } from "../../kernel/http/schema.ts";
import { NEWEST_BY_ID, NEWEST_BY_TIME, page, pageQuery } from "../../kernel/http/serving/pages.ts";
import { memberRoute } from "../../kernel/http/shared-routes.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { Email } from "../accounts/account.schema.ts";
import type { InvitationService } from "./invitation.service.ts";
import type { MemberService } from "./member.service.ts";
import { Invitation, InvitationPreview, Member, Project, ProjectRole } from "./project.schema.ts";
import type { ProjectService } from "./project.service.ts";

export type MemberServices = { members: MemberService; invitations: InvitationService; projects: ProjectService };

export const memberRoutes = (http: Http, runtime: Runtime, services: MemberServices) => (app: Elysia) =>
  app
    .use(membershipRoutes(http, runtime, services))
    .use(invitationRoutes(http, runtime, services))
    .use(inviteeRoutes(http, runtime, services));

const membershipRoutes = ({ guards }: Http, { write }: Runtime, { members, invitations }: MemberServices) =>
  new Elysia({ prefix: "/v1/projects/:projectId/members", tags: ["members"] })
    .use(guards.member)
    .get(
      "",
      (context) =>
        page(context, context.query, {
          name: "members",
          start: NEWEST_BY_TIME,
          read: ([addedAt, userId], limit) => members.list(context.projectId, addedAt, userId, limit),
          position: (member) => [member.addedAt, member.userId],
          show: members.present,
        }),
      {
        ...memberRoute("members:read", "Members of the project", ["SVC_INVALID_CURSOR"]),
        query: t.Object(pageQuery),
        response: { 200: t.Array(Member) },
      },
    )
    .post(
      "",
      async (context) => {
        const { projectId, role, body, set } = context;
        const result = await write((unit) => invitations.addByEmail(unit, projectId, body, role, authorOf(context)));
        if (result.kind === "invited") {
          set.status = 202;
          return invitations.present(result.invitation);
        }
        set.status = result.added ? 201 : 200;
        return members.present(result.member);
      },
      {
        ...memberRoute("members:manage", "Add a member", ["SVC_CONFLICT"], {
          description:
            "A user with an account becomes a member at once (201, or 200 for a member who has that role already). Any other address gets an invitation by mail (202).",
        }),
        query: t.Object(EnvironmentQuery),
        body: t.Object({ email: Email, role: ProjectRole }),
        response: { 200: Member, 201: Member, 202: Invitation },
      },
    )
    .patch(
      "/:userId",
      async (context) => {
        const { projectId, params, role, body } = context;
        return members.present(
          await write((unit) => members.changeRole(unit, projectId, params.userId, body.role, role, authorOf(context))),
        );
      },
      {
        ...memberRoute("members:manage", "Change a member's role", [
          "SVC_CONFLICT",
          "SVC_MEMBER_NOT_FOUND",
          "SVC_LAST_OWNER",
        ]),
        query: t.Object(EnvironmentQuery),
        body: t.Object({ role: ProjectRole }),
        response: { 200: Member },
      },
    )
    .delete(
      "/:userId",
      async (context) => {
        const { projectId, params, role } = context;
        await write((unit) => members.remove(unit, projectId, params.userId, role, authorOf(context)));
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

/** A project's pending invitations, for its members. */
const invitationRoutes = ({ guards }: Http, { write }: Runtime, { invitations }: MemberServices) =>
  new Elysia({ prefix: "/v1/projects/:projectId/invitations", tags: ["members"] })
    .use(guards.member)
    .get(
      "",
      (context) =>
        page(context, context.query, {
          name: "invitations",
          start: NEWEST_BY_ID,
          read: ([before], limit) => invitations.list(context.projectId, before, limit),
          position: (row) => [row.id],
          show: invitations.present,
        }),
      {
        ...memberRoute("members:read", "Invitations that are not accepted yet", ["SVC_INVALID_CURSOR"]),
        query: t.Object(pageQuery),
        response: { 200: t.Array(Invitation) },
      },
    )
    .delete(
      "/:invitationId",
      async (context) => {
        const { projectId, params } = context;
        await write((unit) => invitations.withdraw(unit, projectId, params.invitationId, authorOf(context)));
        context.set.status = 204;
      },
      {
        ...memberRoute("members:manage", "Withdraw an invitation", ["SVC_CONFLICT", "SVC_INVITATION_NOT_FOUND"]),
      },
    );

/** One invitation, for the user who follows its link. */
const inviteeRoutes = ({ guards }: Http, { write }: Runtime, { invitations, projects }: MemberServices) =>
  new Elysia({ prefix: "/v1/invitations/:token", tags: ["members"] })
    .group("", (app) =>
      app.use(guards.ownPage).get("", ({ params }) => invitations.preview(params.token), {
        ...documented("What an invitation is for", ["SVC_INVALID_ONE_TIME_TOKEN"]),
        response: { 200: InvitationPreview },
      }),
    )
    .group("/accept", (app) =>
      app.use(guards.session).post(
        "",
        async (context) => {
          const { caller, params } = context;
          const { projectId, role } = await write((unit) =>
            invitations.accept(unit, params.token, caller.userId, authorOf(context)),
          );
          return projects.present(projects.find(projectId), role);
        },
        {
          ...documented("Accept an invitation as the signed-in user", ["SVC_INVALID_ONE_TIME_TOKEN"]),
          response: { 200: Project },
        },
      ),
    );
