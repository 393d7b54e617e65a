import { t } from "elysia";
import { Environment, nullable, oneOf, Timestamp, textOf } from "../../../kernel/http/schema.ts";
import { PROJECT_ROLES } from "../../../protocol/enums.ts";

export const ProjectName = textOf(1, 80);
export const Description = nullable(textOf(0, 500));
export const ProjectStatus = oneOf(["ACTIVE", "ARCHIVED"]);

export const Project = t.Object({
  id: t.String(),
  name: t.String(),
  description: nullable(t.String()),
  status: ProjectStatus,
  allowedOrigins: t.Array(t.String()),
  allowLocalhostOrigins: t.Boolean(),
  createdAt: Timestamp,
  updatedAt: Timestamp,
  role: t.Optional(oneOf(PROJECT_ROLES)),
  environment: t.Optional(Environment),
});
