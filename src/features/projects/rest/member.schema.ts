import { t } from "elysia";
import { nullable, oneOf, Timestamp } from "../../../kernel/http/schema.ts";
import { PROJECT_ROLES } from "../../../protocol/enums.ts";

export const ProjectRole = oneOf(PROJECT_ROLES);

export const Member = t.Object({
  userId: t.String(),
  email: t.String(),
  name: nullable(t.String()),
  role: ProjectRole,
  capabilities: t.Array(t.String(), { description: "What the role permits" }),
  addedAt: Timestamp,
});
