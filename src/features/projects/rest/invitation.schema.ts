import { t } from "elysia";
import { nullable, Timestamp } from "../../../kernel/http/schema.ts";
import { ProjectRole } from "./member.schema.ts";

export const Invitation = t.Object({
  id: t.String(),
  projectId: t.String(),
  email: t.String(),
  role: ProjectRole,
  invitedBy: nullable(t.String({ description: "Address of who invited" })),
  createdAt: Timestamp,
  expiresAt: Timestamp,
});

export const InvitationPreview = t.Object({
  projectName: t.String(),
  email: t.String(),
  role: ProjectRole,
  invitedBy: nullable(t.String()),
  expiresAt: Timestamp,
});
