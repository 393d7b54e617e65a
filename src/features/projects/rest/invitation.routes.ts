import { Elysia, t } from "elysia";
import { authorOf } from "../../../kernel/http/callers.ts";
import { permit } from "../../../kernel/http/guards.ts";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import { NEWEST, page, pageQuery } from "../../../kernel/http/serving/pages.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { InvitationService } from "../invitation.service.ts";
import type { ProjectService } from "../project.service.ts";
import { Invitation, InvitationPreview } from "./invitation.schema.ts";
import { Project } from "../project.schema.ts";

export type InvitationRouteDeps = { invitations: InvitationService; projects: ProjectService };

/** Invitations as their project sees them. */
export const invitationRoutes = ({ guards }: Http, { write }: Runtime, { invitations }: InvitationRouteDeps) =>
  new Elysia({ prefix: "/v1/projects/:projectId/invitations", tags: ["members"] })
    .use(guards.member)
    .get(
      "",
      (context) =>
        page(context, context.query, {
          name: "invitations",
          shape: ["string"],
          read: (after, limit) => invitations.list(context.projectId, String(after?.[0] ?? NEWEST), limit),
          position: (row) => [row.id],
          show: invitations.show,
        }),
      {
        ...documented("Invitations that nobody has accepted yet", ["SVC_PROJECT_NOT_FOUND", "SVC_INVALID_CURSOR"]),
        transform: permit("members:read"),
        query: t.Object(pageQuery),
        response: { 200: t.Array(Invitation) },
      },
    )
    .delete(
      "/:invitationId",
      async ({ projectId, params, set }) => {
        await write((unit) => invitations.withdraw(unit, projectId, params.invitationId));
        set.status = 204;
      },
      {
        ...documented("Withdraw an invitation", [
          "SVC_PROJECT_NOT_FOUND",
          "SVC_PERMISSION_DENIED",
          "SVC_CONFLICT",
          "SVC_INVITATION_NOT_FOUND",
        ]),
        transform: permit("members:manage"),
      },
    );

/** Invitations as whoever holds the link sees them. */
export const invitedRoutes = ({ guards }: Http, { write }: Runtime, { invitations, projects }: InvitationRouteDeps) =>
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
          return projects.show(projects.find(projectId), role);
        },
        {
          ...documented("Accept an invitation as the signed-in user", ["SVC_INVALID_ONE_TIME_TOKEN"]),
          response: { 200: Project },
        },
      ),
    );
