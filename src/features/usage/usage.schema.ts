import { Type } from "@sinclair/typebox";
import { t } from "elysia";
import { Environment, NullableTimestamp, queryInteger, Timestamp } from "../../kernel/http/schema.ts";

export const UsageQuery = t.Object({
  limit: t.Optional(queryInteger({ min: 1, max: 200, description: "History rows, newest first" })),
  days: t.Optional(queryInteger({ min: 1, max: 365, description: "UTC days of the daily rollup, today included" })),
});

export const ProjectUsageQuery = t.Object({
  ...UsageQuery.properties,
  environment: t.Optional({ ...Environment, description: "Only this environment; without it, both" }),
});

const UsageSession = t.Object({
  id: t.String(),
  projectId: t.String(),
  environment: Environment,
  roomId: t.String(),
  roomName: t.String(),
  participantIdentity: t.String(),
  startedAt: Timestamp,
  endedAt: NullableTimestamp,
  minutes: Type.Integer(),
});
const Daily = t.Array(
  t.Object({
    date: t.String(),
    minutes: Type.Integer(),
    sessions: Type.Integer(),
    recordedMinutes: Type.Integer({ description: "Started minutes of recordings that have ended" }),
  }),
);

export const Usage = t.Object({
  includedMinutes: Type.Integer(),
  usedMinutes: Type.Integer(),
  remainingMinutes: Type.Integer(),
  usedPercent: t.Number(),
  exceeded: t.Boolean(),
  enforced: t.Boolean(),
  allowanceSet: t.Boolean({
    description: "Whether the operator has set an allowance; `includedMinutes` has a default",
  }),
  periodStart: Timestamp,
  liveSessions: Type.Integer(),
});

export const UsageDetail = t.Object({
  ...Usage.properties,
  history: t.Array(UsageSession),
  daily: Daily,
  projects: t.Array(t.Object({ projectId: t.String(), name: t.String(), minutes: Type.Integer() })),
});

export const ProjectUsage = t.Object({
  projectId: t.String(),
  usedMinutes: Type.Integer(),
  recordedMinutes: Type.Integer({ description: "Of this month" }),
  history: t.Array(UsageSession),
  daily: Daily,
});
