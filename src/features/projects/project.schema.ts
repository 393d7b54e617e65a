import { t } from "elysia";
import { Environment, NullableTimestamp, nullable, oneOf, Timestamp, textOf } from "../../kernel/http/schema.ts";
import { PROJECT_ROLES } from "../../protocol/enums.ts";

export const ProjectName = textOf(1, 80);
export const Description = nullable(textOf(0, 500));
export const ProjectStatus = oneOf(["ACTIVE", "ARCHIVED"]);
export const ProjectRole = oneOf(PROJECT_ROLES);

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

export const Member = t.Object({
  userId: t.String(),
  email: t.String(),
  name: nullable(t.String()),
  role: ProjectRole,
  capabilities: t.Array(t.String(), { description: "What the role permits" }),
  addedAt: Timestamp,
});

export const Invitation = t.Object({
  id: t.String(),
  projectId: t.String(),
  email: t.String(),
  role: ProjectRole,
  invitedBy: nullable(t.String({ description: "Address of the inviter" })),
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

export const ApiKey = t.Object({
  id: t.String(),
  projectId: t.String(),
  publicId: t.String(),
  name: t.String(),
  environment: Environment,
  status: oneOf(["ACTIVE", "REVOKED"]),
  lastUsedAt: NullableTimestamp,
  createdAt: Timestamp,
  revokedAt: NullableTimestamp,
});

export const CreatedApiKey = t.Composite([ApiKey, t.Object({ key: t.String({ description: "Shown this once" }) })]);

export const SigningSecret = t.Object({
  apiKey: t.String({ description: "Names the key in a token: its `iss`" }),
  apiSecret: t.String({ description: "Signs tokens of LiveKit's form (HS256)" }),
});

export const CreateApiKey = t.Object({ name: textOf(1, 80), environment: t.Optional(Environment) });
