import { Type } from "@sinclair/typebox";
import { t } from "elysia";
import { NullableTimestamp, nullable, oneOf, Timestamp } from "../kernel/http/schema.ts";

export const ClusterMember = t.Object({
  url: t.String({ description: "Where the other servers reach it" }),
  role: oneOf(["leader", "standby", "edge"]),
  state: t.Union([t.Literal("ok"), t.Literal("behind"), t.Literal("silent")], {
    description: "behind: it lacks more than a moment's records; silent: nothing was heard of it for 10 s",
  }),
  position: Type.Integer({ description: "The last record of the log that it holds" }),
  lag: Type.Integer({ description: "Records of the log that it does not hold yet" }),
  version: t.String(),
  lastHeardAt: Timestamp,
});

/** The servers that share a commit log; the fields are null and empty for a single server. */
export const ClusterOverview = t.Object({
  hasLog: t.Boolean({ description: "COMMIT_LOG_URL is set" }),
  logAnswers: t.Boolean({ description: "The commit log could be asked just now" }),
  leader: nullable(t.String()),
  term: nullable(Type.Integer({ description: "Counts the servers that have led" })),
  ledSince: t.Union([NullableTimestamp], { description: "When the last takeover was" }),
  position: nullable(Type.Integer({ description: "The last record of the log" })),
  hasBucket: t.Boolean({ description: "Attachments are in a bucket that every server reaches" }),
  members: t.Array(ClusterMember),
});
