import { t } from "elysia";
import { Environment, nullable, oneOf, Timestamp } from "../kernel/http/schema.ts";
import { PROJECT_ROLES } from "../protocol/enums.ts";

export const Project = t.Object({
  id: t.String(),
  name: t.String(),
  description: nullable(t.String()),
  status: oneOf(["ACTIVE", "ARCHIVED"]),
  allowedOrigins: t.Array(t.String()),
  allowLocalhostOrigins: t.Boolean(),
  createdAt: Timestamp,
  updatedAt: Timestamp,
  role: t.Optional(oneOf(PROJECT_ROLES)),
  environment: t.Optional(Environment),
});
