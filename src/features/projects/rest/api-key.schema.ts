import { t } from "elysia";
import { Environment, NullableTimestamp, oneOf, Timestamp, textOf } from "../../../kernel/http/schema.ts";

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
